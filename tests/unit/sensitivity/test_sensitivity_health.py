"""Health facts about somebody, in sentences, notes and records, and what only sounds like one."""

from __future__ import annotations

import pytest

from gateway.domain.label import Level, Tag
from gateway.sensitivity.detectors import build_detectors

ENGINES = [build_detectors("hyperscan"), build_detectors("re2")]
KINDS = {"health-fact", "health-field", "clinical-note", "biometric-template"}


def _kinds(text: str) -> set[str]:
    """Kinds of this module in the text, for a label; the same with either engine."""
    found = [
        {finding.kind for finding in engine.find(text, None, 16) if finding.kind in KINDS}
        for engine in ENGINES
    ]
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(
    "text",
    [
        "I was told on Tuesday that the lump in my breast is malignant.",
        "Caller: my son had a seizure at school this morning",
        "She's been off work since her hysterectomy and still has an infection.",
        "Mr Okafor was admitted to the ward with pneumonia.",
        "Our colleague Ben has been diagnosed with multiple sclerosis.",
        "My wife is on methadone and I can't tell anybody.",
        "Patient reports chest pain since Monday, started on bisoprolol 2.5 mg od.",
        "He tested HIV positive in March.",
        "ich bin in der zwölften Woche schwanger, bitte sag es noch niemandem",
        "Bei meiner Mutter wurde gestern Brustkrebs festgestellt.",
        "Frau Lindner hatte einen Schlaganfall und liegt auf der Intensivstation.",
        "Mein Mann leidet an Depressionen und nimmt seit Mai Sertralin.",
        "Ma fille a fait une crise d'épilepsie hier, elle est à l'hôpital.",
        "Mon mari souffre d'un cancer du poumon.",
        "je suis enceinte de trois mois, ne le dites pas encore",
        "Me han detectado un tumor en el riñón y me operan el viernes.",
        "Mi hijo tiene diabetes y le aumentaron la insulina.",
        "La paciente presenta neumonía y sigue ingresada.",
        "A mia madre hanno trovato un tumore al seno.",
        "Mio padre soffre di Alzheimer da tre anni.",
        "Sono incinta di quattro mesi.",
        "Minha mãe foi diagnosticada com câncer de mama.",
        "Estou grávida e ainda não contei no trabalho.",
        "O meu marido sofre de depressão e toma sertralina.",
        "Mijn vader heeft een beroerte gehad en ligt in het ziekenhuis.",
        "Bij mijn zus is borstkanker vastgesteld.",
        "Ik ben zwanger en nog niemand op het werk weet het.",
    ],
)
def test_a_person_with_a_condition_and_what_happened_is_a_health_fact(text: str) -> None:
    assert "health-fact" in _kinds(text) or "clinical-note" in _kinds(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"name": "Ada Byrne", "diagnosis": "F33.1", "room": 4}', "health-field"),
        ("Name: Karl Vogt, Diagnose: Morbus Crohn", "health-field"),
        ("Geburtsdatum: 03.04.1975\nAllergien: Penicillin", "health-field"),
        ("dob,diagnosis\n1975-04-03,asthma\n1981-01-09,gout\n", "health-field"),
        ("employee: 4471, reason for absence: depression", "health-field"),
        ("faceprint: 9f3a2b, employee 221", "biometric-template"),
        ("huella dactilar: 88fe01", "biometric-template"),
        ("72M, PMH COPD, AF. SpO2 88% RA, CXR shows consolidation.", "clinical-note"),
        ("Mrs in bay 3 is nil by mouth, CT shows bowel obstruction, for theatre tonight.", "clinical-note"),
        ("Pcte 67a, HTA, DM2 mal controlada, Eco: FEVI 35%", "clinical-note"),
    ],
)
def test_records_and_notes_say_whose_health_it_is(text: str, kind: str) -> None:
    assert kind in _kinds(text)


@pytest.mark.parametrize(
    "text",
    [
        "What are the early symptoms of multiple sclerosis?",
        "How is pneumonia treated in adults?",
        "My daughter has to give a talk about diabetes at school.",
        "I am reading a book about cancer research.",
        "The hospital opened a new oncology ward last year.",
        "Our company offers depression screening to all employees.",
        "Write a poem in which she dies of tuberculosis.",
        "My code has a memory leak and the process died.",
        "The patient's rights charter was adopted in 1995.",
        "I work as a nurse in a cardiology ward and need a shift plan.",
        "He operates the excavator on the north site.",
        "The positive terminal of the battery shows corrosion.",
        "Can my manager ask for a sick note after two days?",
        "Wie behandelt man eine Lungenentzündung?",
        "Meine Mutter arbeitet in der Onkologie und sucht eine Wohnung.",
        "Welche Nebenwirkungen hat Sertralin?",
        "Die Operation am offenen Herzen wurde 1953 erstmals durchgeführt.",
        "Mon frère est cardiologue à Lyon et cherche un appartement.",
        "Quels sont les symptômes du diabète ?",
        "¿Qué es la quimioterapia?",
        "Mi hermana estudia psicología en Madrid.",
        "Quali sono i sintomi della depressione?",
        "Mio fratello lavora in ospedale come tecnico.",
        "O que é hipertensão?",
        "Minha irmã trabalha num hospital em Lisboa.",
        "Wat zijn de symptomen van de ziekte van Parkinson?",
        "Mijn broer werkt in het ziekenhuis als kok.",
        "The CT pipeline shows 3 failed builds and the MRI repo is archived.",
        '{"name": "string", "condition": "if", "type": "node"}',
        "name: build, condition: always()",
        "- name: deploy\n  condition: succeeded()",
        "if condition: return name = value",
        "She has a great sense of humour and a stroke of luck again.",
        "I had a lump of sugar in my coffee.",
        "He suffered a defeat in the second round of the election.",
        "Our team has had an allergic reaction to meetings since Monday, joke.",
        "I've been running the database operation since Monday.",
        "He took the scan of the contract and sent it back.",
        "She has depression-era coins in her collection.",
        "My scanner shows an error since the update.",
        "Il faut que je trouve le traitement de texte adapté.",
        "El tratamiento de datos de la empresa desde 2018.",
        "je suis en train de faire le traitement des données depuis hier",
        "Ich habe den Termin für die Operation Nordwind, das Projekt startet Montag.",
        "Der Bruch im Datensatz zeigt sich seit Montag, ich habe ihn gefunden.",
        "Er hat den Befund der Revision seit gestern.",
        "Ik heb de uitslag van de wedstrijd gezien.",
        "Ho trovato il referto della revisione contabile.",
        "Tengo la operación de compra confirmada desde ayer.",
        "diagnosis: asthma",
        "allergies: list[str], name: str",
        "fingerprint: SHA256 of the key",
    ],
)
def test_general_knowledge_and_other_meanings_are_no_health_fact(text: str) -> None:
    assert _kinds(text) == set()


def test_a_health_fact_is_restricted_and_is_nothing_to_be_masked() -> None:
    text = "My wife was diagnosed with leukaemia in March."
    (finding,) = ENGINES[0].find(text, None, 16)
    assert (finding.label.level, finding.label.tags) == (Level.RESTRICTED, frozenset({Tag.PHI}))
    assert ENGINES[0].find(text) == ()


def test_the_full_stop_of_a_title_ends_no_sentence() -> None:
    assert "health-fact" in _kinds("He was seen by Dr. Adler and has a tumour.")


def test_person_and_condition_of_different_sentences_are_no_fact() -> None:
    assert _kinds("She was admitted to the bar in May. Cancer research needs money.") == set()


def test_a_sentence_without_end_is_read_in_overlapping_steps() -> None:
    words = "and the weather was good " * 12
    text = f"cancer is a word {words}cancer again and my mother was diagnosed with it {words}"
    assert "health-fact" in _kinds(text)


def test_the_same_shorthand_over_and_over_is_a_note() -> None:
    assert "clinical-note" in _kinds("SpO2 " * 12)
