"""Prices of models, from genai-prices. An unknown price is unknown, not zero."""

from functools import lru_cache
from importlib import import_module
from typing import NamedTuple

SAMPLE_TOKENS = 1000


class Rates(NamedTuple):
    """US dollars per token. Steps for very long prompts are not known to the sums of a store."""

    fresh: float
    output: float
    cached: float
    cache_write: float

    def cost(
        self,
        prompt: int | None,
        completion: int | None,
        cached: int | None,
        cache_write: int | None,
    ) -> float:
        """Of tokens as a trajectory counts them: the prompt holds cache reads and writes."""
        fresh = max((prompt or 0) - (cached or 0) - (cache_write or 0), 0)
        return (
            fresh * self.fresh
            + (cached or 0) * self.cached
            + (cache_write or 0) * self.cache_write
            + (completion or 0) * self.output
        )


@lru_cache(maxsize=512)
def rates_of(model: str) -> Rates | None:
    """None where nobody knows the model's price."""
    plain = model.rpartition("/")[2]  # a product may put its own name before it
    for name in dict.fromkeys((model, plain, plain.replace(".", "-"))):
        try:
            return _rates(name)
        except LookupError:
            continue
    return None


def _rates(model: str) -> Rates:
    library = import_module("genai_prices")  # when it is needed: it is slow to start

    def price(**tokens: int) -> float:
        usage = library.Usage(**tokens)
        return float(library.calc_price(usage, model_ref=model).total_price) / SAMPLE_TOKENS

    count = SAMPLE_TOKENS
    return Rates(
        fresh=price(input_tokens=count),
        output=price(output_tokens=count),
        cached=price(input_tokens=count, cache_read_tokens=count),
        cache_write=price(input_tokens=count, cache_write_tokens=count),
    )
