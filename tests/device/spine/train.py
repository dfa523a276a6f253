#!/usr/bin/env python3
"""One rank of a small transformer trained data-parallel with PyTorch DDP over NCCL.

Started by launch.py, which sets RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. All ranks use CUDA
device 0; launch.py gives each its own NCCL_HOSTID, since NCCL otherwise refuses a shared GPU.

Beside the gradients each step reduces one extra tensor, 4 KiB on even steps and 256 KiB on odd
ones, so that a collective left out has a neighbour of another size.

Everything that could differ between two runs is fixed: seeds, data, deterministic algorithms. The
last line of a rank's log is its final loss with all bits.
"""

import argparse
import os
import pathlib
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # deterministic cuBLAS needs it

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

SMALL_BYTES = 4 * 1024
LARGE_BYTES = 256 * 1024
VOCABULARY = 512


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        split = (batch, length, self.heads, width // self.heads)
        q, k, v = (t.view(split).transpose(1, 2) for t in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) / (width // self.heads) ** 0.5
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        mixed = scores.masked_fill(mask, float("-inf")).softmax(dim=-1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, width=256, depth=4, heads=4, length=64):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.position = nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        x = self.embed(tokens) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Fault:
    """What one rank does wrong, once, at the first suitable step after the trigger."""

    def __init__(self, args, rank):
        self.kind = args.fault if rank == args.fault_rank else "none"
        self.step = args.fault_step
        self.trigger = args.fault_trigger
        self.seconds = args.fault_seconds
        self.bytes = args.fault_bytes
        self.mark = args.folder / "fault.time"
        self.armed = self.kind != "none"

    def due(self, step):
        if not self.armed:
            return False
        if self.step is not None:
            return step >= self.step
        return self.trigger is not None and self.trigger.exists()

    def note_time(self):
        """When the fault happened, for the driver; before it takes effect."""
        self.armed = False
        partial = self.mark.with_suffix(".partial")
        partial.write_text(f"{time.time_ns()}\n", encoding="utf-8")
        partial.rename(self.mark)

    def extra_reduce(self, step, small, large, other):
        """The extra all-reduce of this step, with the fault in it where one is due."""
        tensor = large if step % 2 else small
        if self.due(step):
            if self.kind == "sleep":
                self.note_time()
                time.sleep(self.seconds)
            elif self.kind == "size" and step % 2:
                self.note_time()
                tensor = other
            elif self.kind == "skip":
                self.note_time()
                return
        dist.all_reduce(tensor)
        tensor.mul_(1.0 / dist.get_world_size())


class Progress:
    """Tells the driver how far this rank is, and logs the duration of each step."""

    def __init__(self, folder, rank, log_steps):
        self.path = folder / f"rank-{rank}.progress"
        self.log = open(folder / f"rank-{rank}.steps", "w", encoding="ascii") if log_steps else None
        self.lines = []
        self.written = 0.0
        self.last_ns = None

    def step(self, index):
        now = time.monotonic_ns()
        if self.log and self.last_ns is not None:
            self.lines.append(f"{now} {now - self.last_ns}\n")
        self.last_ns = now
        if now / 1e9 - self.written < 0.5:
            return
        self.written = now / 1e9
        partial = self.path.with_suffix(".partial")
        partial.write_text(f"{index}\n", encoding="ascii")
        partial.rename(self.path)
        if self.log:
            self.log.write("".join(self.lines))
            self.log.flush()
            self.lines.clear()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where to leave files")
    parser.add_argument("--steps", type=int, help="steps to train")
    parser.add_argument("--seconds", type=float, help="seconds to train, instead of --steps")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--log-steps", action="store_true", help="log each step's duration")
    parser.add_argument("--fault", choices=("none", "sleep", "size", "skip"), default="none")
    parser.add_argument("--fault-rank", type=int, default=1)
    parser.add_argument("--fault-step", type=int, help="first step at which the fault may happen")
    parser.add_argument("--fault-trigger", type=pathlib.Path, help="or: once this file exists")
    parser.add_argument("--fault-seconds", type=float, default=3600, help="how long to sleep")
    parser.add_argument("--fault-bytes", type=int, default=SMALL_BYTES, help="the wrong size")
    args = parser.parse_args()
    if (args.steps is None) == (args.seconds is None):
        parser.error("give one of --steps and --seconds")
    return args


def floats(size_in_bytes, rank):
    return torch.full((size_in_bytes // 4,), float(rank), device="cuda")


def main():
    args = arguments()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", device_id=torch.device("cuda", 0))

    torch.manual_seed(1)
    model = Transformer(args.width, args.depth).cuda()
    model = nn.parallel.DistributedDataParallel(model, device_ids=[0])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.Generator().manual_seed(100 + rank)
    small, large = floats(SMALL_BYTES, rank), floats(LARGE_BYTES, rank)
    fault = Fault(args, rank)
    other = floats(args.fault_bytes, rank) if fault.armed else None
    progress = Progress(args.folder, rank, args.log_steps)

    # With --seconds rank 0 alone looks at the clock and tells the others, so that all leave the
    # loop at the same step.
    go_on = torch.ones(1, device="cuda")
    started, step, loss = time.monotonic(), 0, None
    while True:
        if args.steps is not None:
            if step >= args.steps:
                break
        elif step % 16 == 0:
            if rank == 0 and time.monotonic() - started > args.seconds:
                go_on.zero_()
            dist.broadcast(go_on, 0)
            if go_on.item() == 0:
                break
        tokens = torch.randint(VOCABULARY, (args.batch, 65), generator=data).pin_memory()
        tokens = tokens.cuda(non_blocking=True)
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        fault.extra_reduce(step, small, large, other)
        optimizer.step()
        last = loss.item()  # waits for the step, as a training loop that prints its loss does
        step += 1
        progress.step(step)
    extra = float(small.double().sum() + large.double().sum())
    print(f"rank {rank} of {world}: {step} steps, extra {extra.hex()}, loss {last!r}, "
          f"bits {last.hex()}", flush=True)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
