"""dawnrun: reproduce the DAWNBench ImageNet ResNet-50 run, and report honestly how long it took."""

__version__ = "0.1.0"
