from paper.dam_inflow import draw


def test_the_inflow_is_drawn(tmp_path):
    draw(tmp_path / "inflow.png")
    assert (tmp_path / "inflow.png").read_bytes().startswith(b"\x89PNG")
