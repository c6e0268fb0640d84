"""Words of `health` for things: conditions and treatments, fields of records, shorthand of clinicians.

RE2 syntax, as canonical views write the words: without accents, `?` for `ß` and the like. Languages: English,
German, French, Spanish, Italian, Portuguese, Dutch; most names of illnesses are shared. A word ends where
its alternative says so (`\\b`), else anything may follow.
"""

from __future__ import annotations

#: Illnesses, injuries, examinations, medicines and departments.
CONDITIONS: tuple[str, ...] = (
    # Greek and Latin stems that most of the languages share.
    "carcin", "[ck]ar[cz]inom", "lymphom", "linfom", "leuk(?:a?e)?m", "leucemi", "melanom", "metasta",
    "sarcom", "sarkom",
    "biops", "lesion(?:s|e|i|es)?\\b", "malign[aeo]", "[ck]h?emother", "quimio", "chimio", "chemo\\b",
    "radiother", "radioter", "bestrahlung",
    "diabet", "insulin", "epileps", "epilept", "angina\\b", "arrh?ythm", "aritmi", "hypertens", "hipertens",
    "ipertens",
    "asth?ma", "pneumon", "neumon", "polmonit", "tuber[ck]ul", "hepatit", "epatit", "cirrhos", "cirros",
    "zirrhos", "zirros", "cirrose",
    "dialy[sz]", "dialis", "dialy", "transplant", "crohn", "[ck]olitis?\\b", "colite", "hernia", "hernie",
    "ernia\\b", "app?endi[ckz]", "blinddarm",
    "blindedarm", "preeclamp", "pre-eclamp", "endometrio", "gonorrh?", "[cs]y?philis", "sifilis",
    "chlamydi", "clamidia",
    "herpes", "hiv\\b", "vih\\b", "depresion", "depressao", "depressione", "deprimid", "depressief",
    "bipolar", "bipolair", "schizophren", "esquizofren", "schizofren", "psy?[ck]ho(?:sis|se|tic|tisch)",
    "psicosis", "psicosi\\b", "psicose", "hal+uzin", "hallucin", "alucina", "allucina",
    "ptsd", "adhd", "autis", "anorex", "anoress", "bulim", "sui[cz]id", "overdos", "ueberdosis",
    "uberdosis", "sobredos", "alcoholi", "alkoholi", "alcoolis", "alcolis", "methadon", "metadon",
    "demen(?:t|z|ce|ci|za)", "alzheimer", "parkinson", "huntington", "multiple sclerosis",
    "multiple sklerose", "sclerose en plaques", "esclerosis", "sclerosi\\b", "esclerose",
    "migra(?:in|n|en)", "emicrania", "en[xcz]aqueca",
    "art(?:h?)rit", "artros", "arthros", "lupus\\b", "fib?romyalg", "fibromialg", "osteopor", "psoria",
    "e[ck]zem", "thyr(?:oid|eoid)", "tiroid", "schilddruse", "schildklier", "an(?:a?e)mi[aesc]", "anamie",
    "sepsis", "septic shock", "thromb", "trombos", "embolism", "embolie", "embolia", "aneurysm", "aneurism",
    "covid", "mukoviszidose", "cystic fibrosis", "fibrose", "fibrosis",
    "mammogra", "[ck]olonos[ck]op", "coloscopi", "endos[ck]op", "laparos[ck]op", "mastec?[kt]om",
    "hyste?re[ck]tom", "isterectom", "histerectom", "amputa", "antidepress", "antipsychot", "antipsicot",
    "sertralin", "fluoxetin", "citalopram", "escitalopram", "venlafaxin", "risperidon", "olanzapin",
    "quetiapin", "aripiprazol", "lamotrigin", "metformin", "warfarin", "morphin", "morfin", "oxy[ck]od",
    "fentanyl", "tramadol", "prednis", "methotrexat", "tamoxifen", "levodopa",
    "psychiatr", "psiquiatr", "psichiatr", "ps[iy]+[ck]h?ol(?:o)?g(?:a|o|ue|in)\\b", "neurolog",
    "on[ck]olog", "[ck]ardiolog", "urolog", "g(?:y|i)n(?:a?e)?[ck]olog", "h(?:a?e)?matolog", "nephrolog",
    "nefrolog", "palliat", "paliativ", "intensive care", "intensivstation", "soins intensifs", "uci\\b",
    "icu\\b", "terapia intensiva", "reanimation",
    # English
    "cancer", "tumou?r", "leukemi", "seizures?\\b", "heart (?:attack|failure|condition|disease|surgery)",
    "pacemaker", "copd\\b", "jaundice", "gallstone", "gallbladder",
    "kidney (?:stone|failure|disease|infection)", "ulcer", "appendic", "bowel (?:obstruction|resection)",
    "miscarr", "stillb", "abortion", "termination of pregnancy", "ivf\\b", "pregnan", "menopaus",
    "erectile", "anxiety", "panic attack", "eating disorder", "self[- ]harm", "relapse", "rehab\\b",
    "detox", "concussion", "fracture", "slipped dis[ck]", "herniated", "sciatica",
    "blood (?:clot|test|pressure|results?)", "ultrasound", "mri\\b", "ct (?:scan|shows?|showed|head)",
    "x-?rays?\\b", "smear test", "pap smear", "surgery", "chest pain", "morning[- ]after pill",
    "nil by mouth", "hospice", "surgeon", "breathless", "wheez", "vomit", "prostate", "cervical", "womb",
    "fertility", "hearing loss", "glaucoma", "cataract", "insomnia", "incontinen", "nephropath",
    "neuropath", "gangren", "catheter", "stoma\\b", "feeding tube",
    # German
    "[a-z]*krebs\\b", "[a-z]*tumor", "bandscheiben", "schlaganfall", "herzinfarkt", "herzinsuff",
    "herzfehler", "herzschrittmacher", "lungenentzundung", "[a-z]*entzundung", "gallenstein", "nierenstein",
    "nierenversagen", "magengeschwur", "fehlgeburt", "totgeburt", "schwanger", "abtreibung",
    "kunstliche befruchtung", "angststorung", "panikattack", "panikstorung", "essstorung", "magersucht",
    "burn-?out", "ruckfall", "entzugsklinik", "suchtklinik", "gehirnerschutterung", "knochenbruch",
    "blutwert", "blutdruck", "blutbild", "ultraschall", "mrt\\b", "rontgen", "notaufnahme",
    "arbeitsunfahig", "krankgeschrieben", "reha\\b", "gewebeprobe", "zuckerkrank", "bluthochdruck",
    "psychotherap", "chirurg",
    # French
    "tumeur", "avc\\b", "infarctus", "pneumopath", "calcul renal", "fausse couche", "grossesse", "ivg\\b",
    "fiv\\b", "crise d'angoisse", "trouble(?:s)? (?:alimentaire|bipolaire|anxieux)", "rechute",
    "cure de desintox", "hernie discale", "fracture", "prise de sang", "tension arterielle", "echographie",
    "irm\\b", "chirurgi", "kyste", "nodule", "sclerose", "vih", "seropositi", "surdose", "escarre",
    "soins palliatifs",
    # Spanish
    "tumor", "ictus\\b", "infarto", "pulmonia", "aborto", "embaraz", "ansiedad", "ataque de panico",
    "trastorno", "recaid", "recaida", "desintox", "hernia discal", "fractura", "ecografia", "resonancia",
    "radiografia", "tac\\b", "cirugia", "quiste", "nodulo", "seropositiv", "medicacion", "quimio",
    "puncion",
    # Italian
    "tumore", "cancro", "infarto", "polmonite", "aborto", "incinta\\b", "gravidanza", "ansia\\b",
    "attacc[oh]i? di panico", "disturb[oi] (?:alimentar|bipolar)", "ricadut", "disintossic", "frattur",
    "esami del sangue", "ecografia", "risonanza", "radiografia", "tac\\b", "pronto soccorso", "cisti\\b",
    "nodul", "sieropositiv", "chemio",
    # Portuguese
    "cancro", "cancer", "avc\\b", "enfarte", "infarto", "gravid[ae]", "gestante", "ansiedade",
    "ataque de panico", "transtorno", "recaid", "desintox", "fratura", "exame de sangue", "ultrassom",
    "ressonancia", "raio-?x", "tomografia", "cirurgia", "atestado medico", "cisto", "nodulo", "soropositiv",
    "medicacao", "hemodialis",
    # Dutch
    "[a-z]*kanker", "beroerte", "herseninfarct", "hartaanval", "hartfalen", "longontsteking",
    "[a-z]*ontsteking", "galstenen", "nierstenen", "miskraam", "zwanger", "abortus", "angststoornis",
    "paniekaanval", "eetstoornis", "overspannen", "terugval", "afkick", "hersenschudding", "botbreuk",
    "bloeddruk", "bloedonderzoek", "mri-scan", "rontgenfoto", "spoedeisende", "ziek gemeld", "ziekteverlof",
    "biopt", "uitzaaiing", "chirurg", "suikerziekte",
    # Words with another meaning, only where what stands beside them says which.
    "lumps? (?:in|on|under) (?:my|her|his|the|one) (?:\\w+ )?(?:breast|neck|armpit|throat|groin"
        "|testicle|lung)",
    "breast lumps?\\b",
    "(?:had|suffered|after|since) (?:an?|another|her|his|the|my)(?: \\w+)? stroke(?:[.,;!?]|$"
        "| (?:and|in|last|on|at|two|which|that|but|she|he|while|this|yesterday))",
    "depress(?:ion|ed|iv|iva|ivo)(?:[ .,;:!?)]|en\\b|$)",
    "(?:chest|urinary|kidney|lung|wound|ear|yeast|throat|bladder|an|bowel|blood) infection",
    "(?:bone|brain|body|pet|lung|ct|mri) scans?\\b", "scans? (?:shows?|showed|found|revealed|came back)",
    "bleeding (?:a lot|heavily|again|since|from)", "terminally ill", "terminal (?:illness|cancer)",
    "ovarian", "uterus", "uterine",
    "insufficienza (?:renale|cardiaca)", "insuficiencia (?:renal|cardiaca)",
    "insuffisance (?:renale|cardiaque)", "calculs? (?:renal|renaux|biliaires?)",
    "calcoli (?:renali|biliari|al)", "calculos? (?:renal|renais|renales|biliar)", "aux urgences",
    "en urgencias",
    "(?:arm|bein|rippen|schadel|wirbel|huft|becken|hand|fuss|finger|knochen|schlusselbein"
        "|oberschenkel|leisten)bruch",
    "knoten in (?:der|meiner|ihrer|seiner) ", "(?:huft|knie|herz|rucken|brust|bypass|krampfader)-?op\\b",
    "radiographie", "est enceinte", "(?:arm|been|heup|pols|enkel) gebroken",
)  # fmt: skip

#: Names of fields that hold a health fact.
FIELDS: tuple[str, ...] = (
    r"(?:primary |main |working |admission |secondary )?diagnos(?:is|es|e|en|tic|tics|tico|ticos"
        r"|i)[ _]?(?:code|name|text|codes|principal|1)?",
    "dx", r"icd[-_ ]?(?:9|10|11)?(?:[-_ ]?(?:cm|code|codes))?", "(?:medical|health)[ _]conditions?",
    "medical[ _](?:history|condition|conditions|notes)", "medications?", "meds",
    "allerg(?:y|ies|ie|ien|ias?|es)",
    r"blood[ _](?:type|group)", "blutgruppe", "groupe sanguin", "grupo sanguineo", "gruppo sanguigno",
    "bloedgroep", "symptoms?", "hiv[ _](?:status|result)", "(?:lab|hiv|blood)[ _](?:test[ _])?results?",
    "disability", "befunde?", "medikation", "medikamente", "vorerkrankungen", "erkrankung", "behinderung",
    "antecedents medicaux", "medicacion", "enfermedad", "patologi[ae]", "farmaci", "medicacao", "doenca",
    "medicatie", "ziekte", "aandoening", "reason for (?:absence|leave)", "prescription",
)  # fmt: skip

#: Names of fields that say whose record it is.
NAMES: tuple[str, ...] = (
    r"(?:full |first |last |sur|family |given |patient |patient_|employee |employee_|member |first_"
        r"|last_|full_)?names?",
    "patient(?:[ _]?(?:id|no|ref))?", "vorname", "nachname", "familienname", "patientin?", "nom", "prenom",
    "patiente?", "nombre(?: y apellidos)?", "apellidos?", "paciente", "nome", "cognome", "sobrenome",
    "apelido", "paziente", "utente", "naam", "voornaam", "achternaam", "employee(?:[ _]?(?:id|no))?",
    "mitarbeiter(?:in)?", "mrn", "subject(?:[ _]?id)?", "insured", "versicherte[rn]?",
    "staff[ _](?:id|no|name)",
)  # fmt: skip

#: Fields that hold what a body is known by.
TEMPLATES: tuple[str, ...] = (
    r"(?:fingerprint|thumbprint|iris|retina|retinal|face|facial|palm|vein|voice"
        r"|gait)[ _-]?(?:template|minutiae|embedding|encoding|scan|geometry)(?:[ _](?:id|hash|data))?",
    "iris[ _-]?code", "faceprint", "voiceprint", "biometric[ _-]?(?:template|hash|vector)",
    "dna[ _-]?(?:profile|sequence|sample)", "genotype", "str[ _-]profile", "fingerabdruckdaten",
    "gesichtsvorlage", "irisscan", "empreinte digitale", "gabarit (?:biometrique|facial)",
    "huella (?:dactilar|digital)", "plantilla biometrica", "impronta digitale", "modello biometrico",
    "impressao digital", "vingerafdruk", "gezichtsprofiel",
)  # fmt: skip

#: Shorthand that only clinicians use; capitals count. One of these and two more words of a note make a note.
NOTES: tuple[str, ...] = (
    r"[Pp]t (?:reports|c/o|is|has|from|states|denies|w/)", r"[1-9][0-9]? ?(?:yo )?[MF]\b[,;:. ]",
    r"PMHx?\b", r"[Hh]x\b", r"NBM\b", r"[Nn]il by mouth\b", r"BP:? ?[0-9]{2,3}/[0-9]{2,3}",
    r"RR ?[0-9]{2,3}/[0-9]{2,3}", r"SpO2", r"GCS ?[0-9]+", r"HbA1c", r"LVEF", r"FEVI", r"PHQ-?9", r"GAD-?7",
    r"nocte\b", r"DNAR\b", r"DNACPR", r"keine Rea\b", r"Z\. ?n\. ", r"COPD\b", r"NSTEMI", r"STEMI",
    r"UTI\b", r"CRP:? ?[0-9]", r"[Pp]cte\b", r"[Dd]te\b", r"[Pp]ost-?[Oo]p\b", r"[Bb]ay [0-9]+\b",
    r"DM ?[12]\b", r"T[12]DM\b", r"CKD\b", r"HTA\b", r"[Oo]bs stable", r"[Cc]/o\b",
)  # fmt: skip

#: More words of such notes, which elsewhere mean something else.
NOTES_BESIDE: tuple[str, ...] = (
    r"[Pp]t\b", r"[Rr]x\b", r"[Tt]x\b", r"[Dd]x\b", r"[Ff]/[Uu]\b", r"r/v\b", r"h/o\b", r"d/c\b",
    r"[Bb]ed [0-9]+\b", r"[Ss]ide room\b", r"HR:? ?[0-9]{2,3}\b", r"[Ss]ats? [0-9]{2}",
    r"T:? ?3[5-9][.,][0-9]", r"Hb:? ?[0-9]", r"WCC:? ?[0-9]", r"EF ?[0-9]{2} ?%", r"Na ?1[0-9]{2}",
    r"INR ?[0-9]", r"PSA ?[0-9]", r"[0-9]+ ?mg\b", r"[0-9.]+ ?(?:mcg|mmol|ml/h|mmHg)\b", r"mane\b",
    r"[BTQO]D\b", r"[bto]\.?d\b", r"PRN\b", r"[Ii]\.?[Vv]\.?\b",
    r"CT\b", r"MRI\b", r"CXR\b", r"ECG\b", r"EKG\b", r"CTG\b", r"USS\b", r"MRCP\b", r"ERCP\b", r"TTE\b",
    r"Eco\b", r"TC-?CE\b", r"MRT\b", r"IRM\b", r"[Tt]heatre\b", r"D[0-9] post", r"[Ww]ound",
    r"[Ff]amily updated", r"NFR\b", r"V\. ?a\.", r"St\. ?p\.", r"ED\b", r"ICU\b", r"UCI\b", r"AF\b",
    r"CAP\b", r"TnT neg", r"admitted", r"discharge summary", r"[Zz]i(?:mmer)? [0-9]+\b",
    r"[Cc]hambre [0-9]+\b", r"[Kk]amer [0-9]+\b", r"[Cc]ama [0-9]+\b", r"[Ll]etto [0-9]+\b",
    r"[Ll]eito [0-9]+\b", r"RA\b", r"neg\b", r"Plan:", r"bloods\b",
)  # fmt: skip
