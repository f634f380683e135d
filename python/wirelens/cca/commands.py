"""What `wirelens train cca` and `wirelens eval cca` do, for two taps or one."""

from argparse import Namespace
from collections.abc import Sequence

from wirelens.cca import arguments as typed
from wirelens.cca import evaluate, train
from wirelens.cca.flight import flight_inputs
from wirelens.cca.onetap import evaluate as onetap_evaluate
from wirelens.cca.onetap import train as onetap_train
from wirelens.errors import OptionError
from wirelens.learn.progress import Progress


def trained(asked: Namespace, words: Sequence[str], progress: Progress) -> str:
    """Trains a model and writes it; a line with its F1."""
    if asked.taps == 1:
        judged = "held-out"
        f1 = onetap_train.train(typed.onetap_request(asked, words), progress).f1
    else:
        judged = "validation"
        f1 = train.train(typed.train_request(asked, words), progress).f1
    progress.finish()
    found = ", ".join(f"{value:.3f} of {span}" for span, value in f1.items())
    return f"{asked.output}: F1 on the {judged} runs {found or 'is not known, as there are none'}"


def evaluated(asked: Namespace, progress: Progress) -> str:
    """A model's scores, as Markdown."""
    model = typed.eval_model(asked)
    if set(model.inputs) <= set(flight_inputs()):
        request = typed.onetap_eval_request(asked, model)
        return onetap_evaluate.table(onetap_evaluate.evaluate(request, progress))
    rows = evaluate.evaluate(typed.eval_request(asked, model), progress)
    if not rows:
        raise OptionError(
            f"no flow of {', '.join(model.controls)} that is long enough; wanted: more or longer "
            "ones"
        )
    return evaluate.table(rows, model.controls)
