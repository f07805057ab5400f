import torch

# The tests' tensors are tiny: threads would only wait for each other.
torch.set_num_threads(1)
