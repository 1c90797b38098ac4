import torch


class Net:
    def forward(self, x):
        return x
