"""Generation on MLX: models, the ragged cache, rounds, sampling, scheduling.

Importing anything below this package first puts an optimised BLAS in place, where that is needed: it has to
happen before the first import of mlx in the process.
"""

import os

from fillengine.generation.blas import preload

# On CUDA in half precision MLX would build a cuDNN plan (some 80 ms) for each new shape of an attention with more
# than one query, and rounds have hundreds of them; its own kernels take as long for a round, and need no plan.
os.environ.setdefault("MLX_CUDA_USE_CUDNN_SDPA", "0")
preload()
