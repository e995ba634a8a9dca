"""pytorch/pytorch#13246: DataLoader's workers grow, since reading a Python list's items writes their reference counts.
There: 24 million items. malloc is not the cause: pages that were shared since the fork are copied."""

import measure
from torch.utils.data import DataLoader, Dataset


class Data(Dataset):
    def __init__(self):
        self.items = list(range(3_000_000))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return float(self.items[index] + 1)


loader = iter(DataLoader(Data(), batch_size=300, shuffle=True, num_workers=2))


def loop():
    for _ in range(3000):
        next(loader)


measure.run(loop)
