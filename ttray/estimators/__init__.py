"""What a policy is worth, and how sure that is: on-policy, off-policy, and the bound."""
