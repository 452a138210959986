"""The conditional mixture network: the model, its seven updates, the bound and prediction."""
