"""Training with the bound: a differentiable norm, the regularization of the 2023 paper, and layers that are bounded by construction."""
