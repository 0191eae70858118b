"""Ridge regression of replicas is scikit-learn's, replica by replica."""

import torch
from sklearn.linear_model import Ridge

from featscope.probes.ridge import ridge_fits


def test_ridge_of_replicas_is_scikit_learns():
    x, y = torch.randn(3, 40, 5, dtype=torch.float64), torch.randn(3, 40, dtype=torch.float64)
    penalties = (1e-3, 0.5)
    for penalty, fitted in zip(penalties, ridge_fits(x, y, penalties), strict=True):
        for one, labels, weights in zip(x, y, fitted, strict=True):
            alpha = penalty * len(one) * float(one.square().mean())
            slow = Ridge(alpha, fit_intercept=False).fit(one.numpy(), labels.numpy()).coef_
            torch.testing.assert_close(weights, torch.from_numpy(slow))
