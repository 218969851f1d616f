"""Runs several example scripts one after the other in one process: FOLDER OUTPUT NAME:STEPS ..."""

import multiprocessing
import runpy
import sys

import torch

# The ordinary scripts have loader workers and no main part, which Python 3.14 needs otherwise.
multiprocessing.set_start_method("fork")
torch.set_default_dtype(torch.float64)
folder, output = sys.argv[1:3]
sys.path.insert(0, folder)
for name, steps in [word.split(":") for word in sys.argv[3:]]:
    sys.argv = [name, "--steps", steps, "--out", f"{output}/{name}"]
    runpy.run_path(f"{folder}/{name}.py", run_name="__main__")
