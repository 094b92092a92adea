"""Machines and prices as entries state them: whether `costPerHour` is the price of all machines."""

import re
from dataclasses import dataclass
from decimal import Decimal

ON_DEMAND_USD_PER_HOUR = {
    "p3.16xlarge": Decimal("24.48"),
    "ecs.gn6e-c12g1.24xlarge": Decimal("20.60"),
    "c5.18xlarge": Decimal("3.06"),
    "ND40s_v2": Decimal("12.24"),
}
"""Price of one machine as the DAWNBench entries on it state it, 2018 to 2020 (stanford-futuredata/dawn-bench-entries)."""
DEVICES_PER_MACHINE = {"p3.16xlarge": 8, "ecs.gn6e-c12g1.24xlarge": 8, "ND40s_v2": 8}
_COUNTS = (
    r"\b(\d{1,5})\s*[x*]?\s*(?:(?:compute|gpu)\s+)?(?:nodes?|machines?|instances?|servers?|hosts?|vms?)\b",
    r"\b(\d{1,5})\s*\*\s*\d{1,2}\s*\*",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Machines:
    """What a `hardware` text says: how many machines, and the kind if its price is known."""

    number: int | None
    kind: str | None

    @property
    def usd_per_hour(self) -> Decimal | None:
        """Price of one machine."""
        return ON_DEMAND_USD_PER_HOUR[self.kind] if self.kind else None


def machines(hardware: str) -> Machines:
    """Number and kind of machines in a `hardware` text such as `32 * V100 (4 machines - AWS p3.16xlarge)`."""
    kinds = [kind for kind in ON_DEMAND_USD_PER_HOUR if kind.casefold() in hardware.casefold()]
    kind = kinds[0] if len(kinds) == 1 else None
    patterns = [*_COUNTS, rf"\b(\d{{1,5}})\s*[x*]?\s*(?:aws\s+)?{re.escape(kind)}"] if kind else list(_COUNTS)
    counts = {int(match) for pattern in patterns for match in re.findall(pattern, hardware, re.IGNORECASE)}
    if not counts and kind in DEVICES_PER_MACHINE:
        devices = re.search(r"\b(\d{1,6})\s*[x*]?\s*(?:tesla[- ])?[VPA]100", hardware, re.IGNORECASE)
        if devices and int(devices[1]) % DEVICES_PER_MACHINE[kind] == 0:
            counts = {int(devices[1]) // DEVICES_PER_MACHINE[kind]}
    return Machines(number=counts.pop() if len(counts) == 1 else None, kind=kind)


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """`usd_per_hour`: the price of all machines, as far as it is certain; `code` and `message`: its defect, if any."""

    usd_per_hour: Decimal | None
    code: str = ""
    message: str = ""
    note: str = ""


def judge_price(printed: Decimal, hardware: str) -> Price:
    """What a printed `costPerHour` means, given the hardware it is for."""
    found = machines(hardware)
    if printed <= 0:
        return Price(usd_per_hour=None, code="costPerHour_not_positive", message=f"costPerHour is {printed}")
    number, one = found.number, found.usd_per_hour
    if number is None or number < 2:
        return Price(usd_per_hour=printed)
    if one is None:
        one = printed if printed in ON_DEMAND_USD_PER_HOUR.values() else None
    if one is None:
        note = f"costPerHour {printed} for {number} machines: the price of one is not known here, so not checked"
        return Price(usd_per_hour=printed, note=note)
    whole = one * number
    if printed == whole:
        return Price(usd_per_hour=printed)
    covered = printed / one
    if printed < whole and covered % 1 == 0:
        of = "one_machine" if covered == 1 else f"{covered:.0f}_of_{number}_machines"
        message = (
            f"costPerHour {printed} pays for {covered:.0f} of {number} machines at {one}; all cost {whole} an hour"
        )
        return Price(usd_per_hour=whole, code=f"costPerHour_of_{of}", message=message)
    note = f"costPerHour {printed} is not {number} machines at {one} USD ({whole}); taken as printed"
    return Price(usd_per_hour=printed, note=note)
