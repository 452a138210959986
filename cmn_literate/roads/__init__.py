"""Other ways to learn the same network: maximum likelihood, black-box VI, HMC, NUTS and Gibbs."""
