"""Report metrics of your own: they are measured, judged and shown like torchstone's."""

import torch

import torchstone

VOCABULARY, WIDTH, LENGTH = 1000, 128, 64


class Decoder(torch.nn.Module):
    """A small language model with a mixture of two experts."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.experts = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.gate = torch.nn.Linear(WIDTH, 1)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        """Return the logits, and report how evenly the experts are used."""
        hidden = self.embedding(tokens)
        share = torch.sigmoid(self.gate(hidden))
        torchstone.metric("expert_share", share.mean(), better="equal")
        return self.head(share * self.experts[0](hidden) + (1 - share) * self.experts[1](hidden))


def count_tokens(result, seconds):
    """Turn the result of one call, and the time it took, into metrics; this is not timed."""
    tokens = result.shape[0] * result.shape[1]
    return {"tokens_per_second": (tokens / seconds, "higher", "1/s")}


@torchstone.benchmark(batch_size=4, modes=["inference"], metrics=count_tokens)
def decoder(batch_size):
    """Report the number of parameters once, while the model is built."""
    model = Decoder()
    torchstone.metric("parameters", sum(p.numel() for p in model.parameters()), better="equal")
    return model, (torch.randint(VOCABULARY, (batch_size, LENGTH)),)
