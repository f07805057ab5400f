import pytest
import torch

# The tests' tensors are tiny: threads would only wait for each other.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def local_ray():
    """One embedded Ray for all tests that need one."""
    import ray

    if not ray.is_initialized():
        # "local", because a `ray start` on this machine would otherwise be joined.
        ray.init(
            address="local",
            num_cpus=8,  # actors wait more than they compute
            object_store_memory=200 * 2**20,
            include_dashboard=False,
            logging_level="ERROR",
            log_to_driver=False,
        )
    yield
    ray.shutdown()
