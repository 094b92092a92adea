"""The peer of scaling.py: as short as a script of torchrun and DistributedDataParallel gets.

    torchrun ... bare_ddp.py DATA IMAGE_SIZE BATCH FIRST LAST OUTPUT

Trains torchvision's ResNet-50 on the class folders of DATA and writes, for its rank, the CPU-seconds of steps FIRST to LAST.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.utils.data import DataLoader, DistributedSampler
from torchvision import transforms as T
from torchvision.datasets import ImageFolder
from torchvision.models import resnet50


def main() -> None:
    """Train and measure."""
    data, output = Path(sys.argv[1]), Path(sys.argv[6])
    image_size, batch_size, first, last = map(int, sys.argv[2:6])
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    dist.init_process_group("gloo")
    seen = T.Compose([
        T.RandomResizedCrop(image_size, scale=(0.3, 1.0)), T.RandomHorizontalFlip(), T.ToTensor(),
        T.Normalize([118 / 255] * 3, [58 / 255] * 3),
    ])  # fmt: skip
    images = ImageFolder(str(data / "train"), seen)
    sampler = DistributedSampler(images, seed=0)
    loader = DataLoader(images, batch_size, sampler=sampler, drop_last=True)
    model = resnet50(num_classes=len(images.classes), zero_init_residual=True).to(memory_format=torch.channels_last)
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, nesterov=True, weight_decay=5e-4)
    step, epoch, began = 0, 0, 0.0
    while step < last:
        sampler.set_epoch(epoch)
        for pixels, labels in loader:
            if step == first:
                began = time.process_time()
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(pixels.contiguous(memory_format=torch.channels_last)), labels).backward()
            optimizer.step()
            step += 1
            if step == last:
                break
        epoch += 1
    taken = time.process_time() - began
    (output / f"bare-{dist.get_rank()}.json").write_text(json.dumps(taken))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
