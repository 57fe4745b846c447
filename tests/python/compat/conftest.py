"""Upstream's names are called with tensors of the CPU, or of the device that TILEWRIGHT_TEST_DEVICE
names, such as cuda: tests, and tables beside them, make tensors where torch's default device is."""

from __future__ import annotations

import os

import torch

if "TILEWRIGHT_TEST_DEVICE" in os.environ:
    torch.set_default_device(os.environ["TILEWRIGHT_TEST_DEVICE"])
