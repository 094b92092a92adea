"""The data that a run reads, indexed once a machine."""

from dawnrun.dataset.used import UsedSets, index_used
from dawnrun.train.entry import Worker


def find_data(worker: Worker) -> UsedSets:
    """Index what the recipe reads. Raises DataError or RecipeError."""
    if not worker.peers.is_first:
        worker.peers.barrier()  # rank 0 reads the headers and leaves them in the cache
    with worker.recipe.told():
        data = index_used(worker.recipe, worker.site.read_root)
    if worker.peers.is_first:
        worker.peers.barrier()
    return data
