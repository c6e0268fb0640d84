"""From hand-written rows to the weights of the contextual model. Every draw is seeded.

That a second run gives the committed bytes has not been compared. Over 400 lines because the steps share one
state and are read from top to bottom, like the recipe that they are.

Steps: choose the table's rows; ask the teacher what it makes of each word and text; fit its own judge
(one linear layer) on the hand-written rows; make more texts and let that judge label them; train the student
on all of it; calibrate on texts of writers that the student did not see; take the thresholds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from gateway.domain.label import Level
from gateway.evaluation.augment import Augmenter
from gateway.evaluation.corpus import Row
from gateway.evaluation.negatives import stock_texts
from gateway.evaluation.rows import Rows, choose_rows, language_flags
from gateway.evaluation.student import OUTPUTS, Item, Student, grams_of, item_of
from gateway.evaluation.teacher import Teacher
from gateway.sensitivity.context import TAGS, ContextModel, pack
from gateway.sensitivity.language import OTHER_LANGUAGE, OTHER_SCRIPT
from gateway.sensitivity.vocabulary import FOREIGN, OTHER, ROW_MASK, SPECIAL, Vocabulary, unescaped

_TEACHER_LIMIT = 220
_SMOOTH = 0.03
_BATCH = 64
#: The first tags are the restricted ones.
_RESTRICTED = 3


def settle(threads: int) -> None:
    """Fix what makes sums come out in another order: the number of threads and the choice of kernels."""
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)


@dataclass(frozen=True)
class Plan:
    """Numbers that a run may change. Two runs with one plan and the same texts give the same weights."""

    seed: int = 1
    width: int = 160
    hidden: int = 64
    epochs: int = 5
    rate: float = 2e-3
    drop: float = 0.3
    word_drop: float = 0.15


class VectorCache:
    """Teacher vectors by digest of the piece numbers, so that only new texts cost time."""

    def __init__(self, teacher: Teacher, known: dict[bytes, NDArray[np.float16]] | None = None) -> None:
        self.teacher = teacher
        self.known = known if known is not None else {}

    def vectors(self, batch: Sequence[Sequence[int]], say: Callable[[str], None]) -> Any:
        """Unit vectors (n, teacher width) as float32."""
        keys = [hashlib.blake2b(np.asarray(ids, "<i4").tobytes(), digest_size=16).digest() for ids in batch]
        wanted = dict(zip(keys, batch, strict=True))
        missing = [(key, ids) for key, ids in wanted.items() if key not in self.known]
        for at in range(0, len(missing), 2048):
            part = missing[at : at + 2048]
            say(f"teacher: {at} of {len(missing)}")
            made = self.teacher.vectors([ids for _, ids in part]).numpy().astype(np.float16)
            self.known.update((key, vector.copy()) for (key, _), vector in zip(part, made, strict=True))
        stacked = np.stack([self.known[key] for key in keys]).astype(np.float32)
        return functional.normalize(torch.from_numpy(stacked), dim=-1)

    def of_texts(self, texts: Sequence[str], say: Callable[[str], None]) -> Any:
        """As `vectors` for texts."""
        return self.vectors([self.teacher.ids(text, _TEACHER_LIMIT) for text in texts], say)


@dataclass(frozen=True)
class Material:
    """All that does not change between runs over the same texts. Tensors follow the order of the texts."""

    rows: Rows
    vocabulary: Vocabulary
    words: Any
    grams: list[list[int]]
    texts: tuple[str, ...]
    writers: tuple[str, ...]
    labels: Any
    vectors: Any
    taught: tuple[tuple[str, ...], ...]
    taught_vectors: Any
    stock: tuple[str, ...]


def labels_of(rows: Iterable[Row]) -> Any:
    """1.0 for each tag that a row has, in the order of `TAGS`, and for "any of them"."""
    made = []
    for row in rows:
        named = {"fin" if tag == "commercial" else tag for tag in row.tags}
        values = [float(tag.value in named) for tag in TAGS]
        made.append([*values, float(any(values) and row.level >= Level.CONFIDENTIAL)])
    return torch.tensor(made).view(-1, OUTPUTS)


def gather(
    corpora: Mapping[str, Sequence[Row]],
    cache: VectorCache,
    lexicon: Mapping[str, Iterable[str]],
    stop_words: Mapping[str, Iterable[str]],
    seed: int,
    say: Callable[[str], None],
) -> Material:
    """Choose rows, make more texts, ask the teacher about all of it. `corpora` goes from writer to rows."""
    pairs = [(writer, row) for writer in sorted(corpora) for row in corpora[writer]]
    texts = tuple(row.text for _, row in pairs)
    say("choosing rows")
    rows = choose_rows(cache.teacher, texts, lexicon, stop_words)
    teacher = cache.teacher
    shown = [teacher.ids(one) if isinstance(one, str) else teacher.ids_of_piece(one) for one in rows.sources]
    words = cache.vectors(shown, say)
    words = centred(words, rows.groups)
    augmenter = Augmenter(_neighbours(rows, words, texts), seed)
    taught = tuple(tuple(augmenter.taught(text)) for text in texts)
    flat = [text for made in taught for text in made]
    stock = tuple(stock_texts()[::3])
    return Material(
        rows=rows,
        vocabulary=Vocabulary(rows.words, rows.tails, rows.others),
        words=torch.cat([torch.zeros(len(SPECIAL), words.shape[1]), words]),
        grams=grams_of(rows.words, rows.tails),
        texts=texts,
        writers=tuple(writer for writer, _ in pairs),
        labels=labels_of(row for _, row in pairs),
        vectors=cache.of_texts(texts, say),
        taught=taught,
        taught_vectors=cache.of_texts(flat, say),
        stock=stock,
    )


def centred(words: Any, groups: Sequence[str]) -> Any:
    """Unit vectors (n, width) of `words` less the mean of their group."""
    names, place = np.unique(np.array(groups), return_inverse=True)
    at = torch.from_numpy(place)
    count = torch.zeros(len(names), 1).index_add(0, at, torch.ones(len(place), 1))
    means = torch.zeros(len(names), words.shape[1]).index_add(0, at, words) / count
    return functional.normalize(words - means[at], dim=-1)


def _neighbours(rows: Rows, words: Any, texts: Sequence[str]) -> dict[str, list[str]]:
    """For each word of the texts up to twelve whole words near it in the teacher's eyes, of any language."""
    vocabulary = Vocabulary(rows.words, rows.tails)
    first = len(SPECIAL)
    used: set[int] = set()
    for text in texts:
        used.update((np.frombuffer(vocabulary.rows(text), "<i4") & ROW_MASK).tolist())
    wanted = [row - first for row in sorted(used) if first <= row < first + len(rows.words)]
    wanted = [place for place in wanted if len(rows.words[place]) > 3]
    whole = words[: len(rows.words)]
    near: dict[str, list[str]] = {}
    for at in range(0, len(wanted), 1024):
        part = torch.tensor(wanted[at : at + 1024])
        likeness = whole[part] @ whole.T
        likeness[torch.arange(len(part)), part] = -1.0
        values, places = likeness.topk(12, dim=1)
        for place, scores, others in zip(part.tolist(), values.tolist(), places.tolist(), strict=True):
            near[rows.words[place]] = [
                str(rows.sources[other])
                for score, other in zip(scores, others, strict=True)
                if score > 0.35 and isinstance(rows.sources[other], str) and len(rows.words[other]) > 2
            ]
    return near


def judge(vectors: Any, labels: Any, steps: int = 300, decay: float = 2e-4) -> Callable[[Any], Any]:
    """The teacher's own verdict: one linear layer on its sentence vectors, fitted to `labels`."""
    torch.manual_seed(0)
    centre = vectors.mean(0)
    layer = torch.nn.Linear(vectors.shape[1], labels.shape[1])
    torch.nn.init.zeros_(layer.weight)
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.5)
    x = vectors - centre
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 0.5 * (1 - step / steps)
        loss = functional.binary_cross_entropy_with_logits(layer(x), labels)
        loss = loss + decay * (layer.weight**2).sum() / OUTPUTS
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    def chances(seen: Any) -> Any:
        with torch.inference_mode():
            return torch.sigmoid(layer(seen - centre)).clone()

    return chances


@dataclass(frozen=True)
class _Lesson:
    """Items of one run: rows, labels, teacher vectors (zero where the teacher was not asked) and weight."""

    items: list[Item]
    labels: Any
    vectors: Any


def _lesson(material: Material, chosen: NDArray[np.int64], plan: Plan) -> _Lesson:
    vocabulary = material.vocabulary

    def item(text: str) -> Item:
        return item_of(np.frombuffer(vocabulary.rows(unescaped(text)), "<i4") & ROW_MASK)

    labels = material.labels[chosen]
    chances = judge(material.vectors[chosen], labels)
    centre = material.vectors[chosen].mean(0)
    starts = np.cumsum([0, *(len(made) for made in material.taught)])
    taught = [place for row in chosen for place in range(starts[row], starts[row + 1])]
    flat = [text for made in material.taught for text in made]
    augmenter = Augmenter({}, plan.seed)
    benign = [material.texts[row] for row in chosen if not material.labels[row, -1]]
    benign += material.stock
    beside = [benign[int(row) * 7919 % len(benign)] for row in chosen]
    dressed = [
        augmenter.dressed(material.texts[row], other) for row, other in zip(chosen, beside, strict=True)
    ]
    stock = list(material.stock[plan.seed % 2 :: 2])
    texts = [material.texts[row] for row in chosen]
    seen = functional.normalize(material.vectors[chosen] - centre, dim=-1)
    taught_seen = material.taught_vectors[taught]
    return _Lesson(
        [item(text) for text in [*texts, *dressed, *(flat[place] for place in taught), *stock]],
        torch.cat([labels, labels, chances(taught_seen), torch.zeros(len(stock), OUTPUTS)]),
        torch.cat(
            [
                seen,
                torch.zeros_like(seen),
                functional.normalize(taught_seen - centre, dim=-1),
                torch.zeros(len(stock), seen.shape[1]),
            ]
        ),
    )


def train(material: Material, chosen: NDArray[np.int64], plan: Plan, say: Callable[[str], None]) -> Student:
    """A student taught with the chosen rows and what was made of them."""
    lesson = _lesson(material, chosen, plan)
    torch.manual_seed(plan.seed)
    order = np.random.Generator(np.random.PCG64(plan.seed))
    seen_in = np.bincount(
        np.concatenate([np.unique(item.ids) for item in lesson.items]), minlength=len(material.grams)
    )
    rarity = np.log((len(lesson.items) + 1) / (seen_in + 0.5)).clip(0.3) / 4
    importance = torch.tensor(np.log(rarity), dtype=torch.float32)
    student = Student(material.words, material.grams, importance, plan.width, plan.hidden, plan.drop)
    sparse = [student.gram.weight, student.gram_weight.weight]
    dense = [value for name, value in student.named_parameters() if not name.startswith("gram")]
    optimiser = torch.optim.AdamW(
        [{"params": dense, "weight_decay": 0.05}, {"params": sparse, "weight_decay": 0.0}], lr=plan.rate
    )
    weight = torch.full((OUTPUTS,), 0.5)
    weight[-1] = 1.5
    steps = plan.epochs * -(-len(lesson.items) // _BATCH)
    step = 0
    for epoch in range(plan.epochs):
        student.train()
        places = order.permutation(len(lesson.items))
        for at in range(0, len(places), _BATCH):
            part = places[at : at + _BATCH]
            outputs, sentence, learned = student([lesson.items[place] for place in part], plan.word_drop)
            wanted = lesson.labels[part] * (1 - 2 * _SMOOTH) + _SMOOTH
            loss = functional.binary_cross_entropy_with_logits(outputs, wanted, reduction="none")
            total = (loss * weight).sum(1).mean()
            target = lesson.vectors[part]
            total = total + (target.norm(dim=1) * (1 - (sentence * target).sum(1))).mean()
            total = total + 1e-3 * (learned**2).sum(-1).mean()
            for group in optimiser.param_groups:
                group["lr"] = plan.rate * min(1.0, step / 50 + 0.02) * (1 - step / steps)
            optimiser.zero_grad()
            total.backward()
            optimiser.step()
            step += 1
        say(f"epoch {epoch + 1} of {plan.epochs}: loss {total.item():.3f}")
    student.eval()
    return student


def raw_scores(student: Student, vocabulary: Vocabulary, texts: Sequence[str]) -> NDArray[np.float32]:
    """Outputs (n, tags + 1) of an unfinished model, as the finished one would give before calibration."""
    model = ContextModel(packed(student, vocabulary, bytes(vocabulary.size), None, None, None))
    return np.stack([model.logits(text)[0] for text in texts])


def packed(
    student: Student,
    vocabulary: Vocabulary,
    flags: bytes,
    calibration: tuple[Sequence[float], Sequence[float]] | None,
    route: Mapping[str, float] | None,
    mask: Mapping[str, float] | None,
) -> bytes:
    """The file of weights; without calibration its scores are raw and its thresholds one half."""
    arrays = student.export()
    slope, offset = calibration or ([1.0] * len(TAGS), [0.0] * len(TAGS))
    marked = np.frombuffer(flags, np.uint8).copy()
    marked[FOREIGN], marked[OTHER] = OTHER_SCRIPT, OTHER_LANGUAGE
    arrays.update(slope=np.asarray(slope, np.float64), offset=np.asarray(offset, np.float64), flags=marked)
    half = {tag.value: 0.5 for tag in TAGS}
    lists = (tuple(vocabulary.words), tuple(vocabulary.tails), sorted(vocabulary.others))
    return pack(arrays, *lists, route or half, mask or half)


@dataclass(frozen=True)
class Trained:
    """The file of weights, and what was measured on writers and on a set that training did not see."""

    file: bytes
    report: dict[str, Any]


def finish(
    material: Material, dev: Sequence[Row], plan: Plan, fold_count: int, say: Callable[[str], None]
) -> Trained:
    """Calibrate on held-out rows, take thresholds there and on `dev`, train on everything, and report.

    The figures under `held_out` are of models that saw no row of the writer they are tested on, which for all
    writers but the English ones means no row of the language either.
    """
    names = np.array(sorted(set(material.writers)))
    writer = np.searchsorted(names, np.array(material.writers))
    held_out = {}
    unseen = _unseen(material, writer % fold_count, plan, say)
    for place, name in enumerate(names.tolist()):
        own = writer == place
        held_out[name] = measured(unseen[own], material.labels[own].numpy())
    labels = material.labels.numpy()
    folded = _unseen(material, np.arange(len(labels)) // 10 % 2, plan, say)
    calibration = [platt(folded[:, place], labels[:, place]) for place in range(len(TAGS))]
    say("the model itself")
    student = train(material, np.arange(len(material.texts)), plan, say)
    judged = [row for row in dev if row.level <= Level.INTERNAL or labels_of([row])[0, -1]]
    dev_labels = labels_of(judged).numpy()
    dev_scores = np.zeros((0, OUTPUTS), np.float32)
    if judged:
        dev_scores = raw_scores(student, material.vocabulary, [row.text for row in judged])
    route, mask = thresholds(folded, labels, dev_scores, dev_labels)
    slope, offset = zip(*calibration, strict=True)

    def calibrated(raw: Sequence[float]) -> dict[str, float]:
        return {
            tag.value: float(1 / (1 + np.exp(-(raw[place] * slope[place] + offset[place]))))
            for place, tag in enumerate(TAGS)
        }

    file = packed(
        student,
        material.vocabulary,
        language_flags(material.rows),
        (slope, offset),
        calibrated(route),
        calibrated(mask),
    )
    limits = {"route": route, "mask": mask}
    report = {
        "plan": {name: getattr(plan, name) for name in plan.__dataclass_fields__},
        "rows": len(material.texts),
        "sha256": hashlib.sha256(file).hexdigest(),
        "held_out": held_out,
        "folded": measured(folded, labels),
        "folded_at": {name: _at(folded, labels, raw) for name, raw in limits.items()},
        "dev": measured(dev_scores, dev_labels),
        "dev_at": {name: _at(dev_scores, dev_labels, raw) for name, raw in limits.items()},
    }
    return Trained(file, report)


def _unseen(
    material: Material, fold: NDArray[np.int64], plan: Plan, say: Callable[[str], None]
) -> NDArray[np.float32]:
    """Outputs for every row from a model that saw no row of the same `fold`."""
    unseen = np.zeros((len(fold), OUTPUTS), np.float32)
    for number in np.unique(fold).tolist():
        say(f"without fold {number}")
        student = train(material, np.flatnonzero(fold != number), plan, say)
        places = np.flatnonzero(fold == number)
        unseen[places] = raw_scores(student, material.vocabulary, [material.texts[at] for at in places])
    return unseen


def platt(raw: NDArray[np.float32], labels: NDArray[np.float32]) -> tuple[float, float]:
    """Slope (at least .05) and offset that make `raw` a chance, by Newton steps on the log loss."""
    x = np.stack([raw.astype(np.float64), np.ones(len(raw))], axis=1)
    weights = np.array([1.0, 0.0])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        slope = x.T @ (chance - labels) + 1e-3 * weights
        curve = (x * (chance * (1 - chance))[:, None]).T @ x + 1e-3 * np.eye(2)
        weights = weights - np.linalg.solve(curve, slope)
    return max(0.05, float(weights[0])), float(weights[1])


def thresholds(
    folded: NDArray[np.float32],
    labels: NDArray[np.float32],
    dev: NDArray[np.float32],
    dev_labels: NDArray[np.float32],
) -> tuple[list[float], list[float]]:
    """Raw thresholds per tag, `route` and `mask`.

    `route`: about one in twenty harmless texts of `dev` raises an alarm, and not more than one in fifty a
    restricted one (without `dev`: one in twenty of `folded`). `mask`: none of `dev`, one in two hundred of
    `folded`.
    """
    harmless = folded[labels[:, -1] == 0][:, : len(TAGS)]
    dev_harmless = dev[dev_labels[:, -1] == 0][:, : len(TAGS)]
    made = []
    for share, dev_share, is_surest in ((0.05, 0.02, False), (0.005, 0.01, True)):
        common = float(np.quantile(harmless.max(axis=1), 1 - share))
        closed = common
        if len(dev_harmless):
            # The models of the folds saw half as much: their outputs are no measure for the one that ships.
            seen = float(np.quantile(dev_harmless.max(axis=1), 1.0 if is_surest else 1 - share)) + 1e-3
            strict = dev_harmless[:, :_RESTRICTED].max(axis=1)
            common = max(common, seen) if is_surest else seen
            closed = max(common, float(np.quantile(strict, 1 - dev_share, method="higher")) + 1e-3)
        made.append([closed if place < _RESTRICTED else common for place in range(len(TAGS))])
    return made[0], made[1]


def measured(raw: NDArray[np.float32], labels: NDArray[np.float32]) -> dict[str, Any]:
    """Area under the curve, and recall at one false alarm in twenty harmless texts, over all and by tag."""
    harmless = labels[:, -1] == 0
    report: dict[str, Any] = {"n": len(raw), "any": _figures(raw[:, -1], labels[:, -1] > 0, harmless)}
    for place, tag in enumerate(TAGS):
        report[tag.value] = _figures(raw[:, place], labels[:, place] > 0, harmless)
    return report


def _figures(
    raw: NDArray[np.float32], wanted: NDArray[np.bool_], harmless: NDArray[np.bool_]
) -> dict[str, Any]:
    positive, negative = raw[wanted], raw[harmless]
    if not len(positive) or not len(negative):
        return {"n": len(positive), "auc": None, "recall_at_5_percent": None}
    apart = positive[:, None] - negative[None, :]
    above = (apart > 0).mean() + (apart == 0).mean() / 2
    limit = np.quantile(negative, 0.95)
    return {
        "n": len(positive),
        "auc": round(float(above), 4),
        "recall_at_5_percent": round(float((positive > limit).mean()), 4),
    }


def _at(raw: NDArray[np.float32], labels: NDArray[np.float32], limits: Sequence[float]) -> dict[str, float]:
    """Recall of restricted and of all sensitive rows, and false alarms on harmless ones, at `limits`."""
    over = raw[:, : len(TAGS)] >= np.asarray(limits)
    strict = over[:, :_RESTRICTED].max(axis=1)
    secret = labels[:, :_RESTRICTED].max(axis=1) > 0
    sensitive, harmless = labels[:, -1] > 0, labels[:, -1] == 0
    return {
        "restricted_recall": _share(strict[secret]),
        "restricted_false_alarms": _share(strict[harmless]),
        "sensitive_recall": _share(over.max(axis=1)[sensitive]),
        "sensitive_false_alarms": _share(over.max(axis=1)[harmless]),
    }


def _share(hits: NDArray[np.bool_]) -> float:
    return round(float(hits.mean()), 4) if len(hits) else 0.0
