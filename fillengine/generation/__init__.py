"""Generation on MLX: models, the ragged cache, rounds, sampling, scheduling.

Importing anything below this package first puts an optimised BLAS in place, where that is needed: it has to
happen before the first import of mlx in the process.
"""

from fillengine.generation.blas import preload

preload()
