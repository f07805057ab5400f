"""Chains of layers: they give what the modules give."""

import pytest
import torch
from torch import nn

from ttray.rollout.layer_chain import LayerChain


class Own(nn.Sequential):
    def forward(self, rows):
        return super().forward(rows) + 1.0


def hooked(layer):
    layer.register_forward_hook(lambda module, given, found: -found)
    return layer


CHAINS = {
    "plain": [nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 7), nn.ReLU(), nn.Linear(7, 2)],
    "without biases": [nn.Linear(4, 5, bias=False), nn.Tanh()],
    "nested": [nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 8))), nn.Tanh()],
    "others": [nn.LayerNorm(4), nn.Linear(4, 6), nn.ELU(), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 1)],
    "hooks": [hooked(nn.Linear(4, 6)), hooked(nn.Tanh()), hooked(nn.Sequential(nn.Linear(6, 3), nn.ReLU()))],
    "code of one's own": [Own(nn.Linear(4, 6), nn.Tanh())],
    "nothing to multiply": [nn.Tanh(), nn.ReLU()],
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_gives_what_its_layers_give_and_leaves_what_it_is_given(name):
    layers = CHAINS[name]
    rows = torch.randn(16, 3 if name == "plain" else 4, generator=torch.Generator().manual_seed(0))
    before = rows.clone()
    with torch.inference_mode():
        found, expected = LayerChain(*layers)(rows), nn.Sequential(*layers)(before)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(rows, before)
