"""What a command runs on and with: the site made definite, everything checked before the start, the choices told."""

from dataclasses import dataclass
from pathlib import Path

from dawnrun.cli.attempt import say
from dawnrun.cli.split import node_counts_told
from dawnrun.dataset.decoders import choose_decoder
from dawnrun.errors import LaunchError, UsageError
from dawnrun.launch.checks import (
    check_data,
    check_execution,
    check_images,
    check_import,
    check_memory,
    check_output,
    check_staged,
    data_folders,
)
from dawnrun.launch.devices import Found, available_cores, find_device, remote_site, resolve_site
from dawnrun.launch.facts import free_bytes
from dawnrun.launch.preflight import judge_shared_memory
from dawnrun.recipe.reader import Document
from dawnrun.recipe.schedule import Schedule
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.text import escaped, plural, size


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """The site with nothing left open, and how its device was found."""

    site: Site
    found: Found


def find_machine(site: Site, *, data_root: Path | None = None, run_root: Path | None = None) -> Machine:
    """Fill in what the site leaves open. LaunchError where this machine has not what it asks for."""
    roots: dict[str, Path | None] = {
        name: root for name, root in (("data_root", data_root), ("run_root", run_root)) if root is not None
    }
    if data_root is not None:
        roots["local_data_root"] = None  # the user says where to read
    site = site.model_copy(update=roots)
    if site.launcher.local is None:
        site = remote_site(site)
        return Machine(site=site, found=Found(device=site.device, count=site.world_size, how="on other machines"))
    if site.environment_archive is not None:
        raise UsageError(f"site {site.name}: environment_archive is for nodes; on this machine start dawnrun from it")
    if site.nodes != 1:
        raise LaunchError(f"site {site.name}: {site.nodes} nodes, but this launcher starts processes on one machine")
    found = find_device(site.device)
    return Machine(site=resolve_site(site, found, available_cores()), found=found)


def check(document: Document[Recipe], site: Site) -> Schedule | None:
    """Everything that can be known to fail before a process is started; the schedule where the images are counted."""
    recipe = document.value
    # Whether batches can be split does not hang on the number of images; it is checked again once that is known.
    most = max(phase.global_batch_size for phase in recipe.phases)
    with node_counts_told(recipe, site):
        Schedule.compile(recipe, recipe.input.num_train_images or most, site.world_size, document=document)
    check_import(document)
    check_execution(document, site)
    choose_decoder(recipe.input.decoder, device=site.device)
    if site.launcher.kubernetes is None:
        check_output(site.run_root, recipe.checkpoint.keep)
    if site.launcher.local is not None:
        for finding in judge_shared_memory("this machine", free_bytes("/dev/shm") if site.world_size > 1 else None):  # noqa: S108
            say(f"note        {finding}")
        check_staged(recipe, site)
        check_memory(document, site.world_size)
        check_data(data_folders(recipe, site))
        counted = check_images(document, site.read_root)
        if counted is not None:
            return Schedule.compile(recipe, counted, site.world_size, document=document)
    return None


def print_choices(recipe: Recipe, machine: Machine, source: str) -> None:
    """All that was chosen, by the user or by us."""
    # Imported here because it brings numpy.
    from dawnrun.dataset.memory import buffer_bytes

    site, provenance = machine.site, recipe.provenance
    of = f"; published: {provenance.published}" if provenance.published else ""
    say(f"recipe      {recipe.name} ({escaped(source)}), confidence {provenance.confidence}{of}")
    if provenance.changed:
        say(f"changed     {provenance.changed}")
    say(f"device      {site.device} ({machine.found.how})")
    threads = f"with {plural(site.threads_per_process, 'thread')} each" if site.threads_per_process else "sharing cores"
    say(f"processes   {site.world_size} on {plural(site.nodes, 'node')}, {threads}")
    if site.evaluators and recipe.validation.when == "during":
        where = "on a machine of their own" if site.evaluator_node else "on the first node"
        say(f"evaluators  {site.evaluators} {where}, beside the training")
    elif recipe.validation.when == "after":
        say("validation  after the last step, of the weights stored until then")
    decoder = choose_decoder(recipe.input.decoder, device=site.device)
    say(f"decoder     {decoder.name} ({decoder.reason})")
    say(f"batches     {size(buffer_bytes(recipe))} of memory in each process, no shared memory")
    for index, phase in enumerate(recipe.phases):
        sizes = " to ".join(dict.fromkeys(str(edge(recipe.image_sizes[index])) for edge in (min, max)))
        passes = phase.global_batch_size // (phase.per_device_batch_size * site.world_size)
        say(
            f"phase {index + 1:<6}{plural(phase.epochs, 'epoch')} at {sizes} px, batch {phase.global_batch_size}"
            f" = {phase.per_device_batch_size} images a pass, processes: {site.world_size}, passes each: {passes}"
        )
    if recipe.input.import_ is not None:
        say(f"data        by {recipe.input.import_}, below {escaped(site.data_root)}")
    for name, folder in data_folders(recipe, site).items():
        say(f"data        {name}: {escaped(folder)}")
