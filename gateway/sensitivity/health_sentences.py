"""Words of `health` for sentences: whose illness it is, what happened, and what makes it a tale or a lesson.

RE2 syntax, as canonical views write the words, in the languages of `health_words`.
"""

from __future__ import annotations

_RELATIVE = (
    "mum|mam|mom|mother|dad|father|husband|wife|partner|fiancee?|son|daughter|brother|sister|aunt|uncle"
    "|cousin|niece|nephew|grand(?:mother|father|ma|pa|dad|son|daughter)|gran|nan|boyfriend|girlfriend|child"
    "|baby|kid|boss|colleague|manager|neighbou?r|friend|flatmate|roommate|employee|student|client|tenant"
    "|in-law|stepson|twin"
)
#: Somebody whose illness it can be. Cases are told apart only where it matters.
PERSONS: tuple[str, ...] = (
    r"\b[Mm]y (?:\w+[ -]){0,2}(?:" + _RELATIVE + r")\b",
    r"\b(?:[Oo]ur|[Hh]er|[Hh]is|[Tt]heir) (?:\w+ )?(?:" + _RELATIVE + r")\b",
    r"\b(?:[Ss]he|[Hh]e)(?:'s|'d|'ll)?\b",
    r"\bI(?:'m|'ve|'d)?(?: \w+)? (?:am|was|have|had|took|take|relapsed|got|need|will be|been|started"
        r"|stopped|lost|tested|keep|suffer|underwent|feel)\b",
    r"\bI'(?:m|ve)\b",
    r"\b[Mm]y (?:\w+ )?(?:results?|scans?|biopsy|doctor|gp|GP|therapist|psychiatrist|surgeon"
        r"|oncologist|neurologist|consultant|diagnosis|medication|meds|treatment|chemo|dose|pregnancy"
        r"|condition|liver|kidneys?|heart|lungs?|breast|knee|back|brain|blood|period|symptoms)\b",
    r"\b[Pp]atient (?:reports|states|presents|has|was|is|complains|denies)\b",
    r"\b(?:[Tt]he|[Tt]his) (?:patient|lady|gentleman)\b", r"\b(?:[Pp]t|PT|[Pp]cte|[Pp]ac|[Pp]at)\b",
    r"\b(?:Mrs?|Ms|Miss|Herr|Frau|Mme|Mlle|Monsieur|Madame|Sra?|Se?nor[a]?|Signora?|Sig|Dhr"
        r"|Mevr(?:ouw)?|Dona|Dte)\b",
    r"\b[1-9][0-9]?[ -]?(?:[MFmf]|yo|y/o|year[- ]old|yr[- ]old|years old|yrs?)\b",
    # German
    r"\b(?:[Mm]ein|[Uu]nser|[Ii]hr|[Ss]ein)(?:e[mnrs]?)? (?:\w+ )?(?:Mutter|Mama|Vater|Papa|Mann|Frau"
        r"|Partner(?:in)?|Sohn|Tochter|Bruder|Schwester|Oma|Opa|Tante|Onkel|Kollegin?|Kollegen?|Chefin?"
        r"|Chef|Kind|Baby|Freund(?:in)?|Nachbar(?:in)?|Arzt|Arztin|Therapeut(?:in)?|Psychiater(?:in)?"
        r"|Befund|Blutwerte|Diagnose|Leber|Herz|Knie|Rucken|Bandscheibenvorfall|Krebs|Tumor|Depression"
        r"|Schwangerschaft|Operation|Patient(?:in)?)",
    r"\b(?:[Ii]ch|mir|mich|[Mm]einem?|[Mm]einer)\b",
    r"\b(?:[Ee]r|ihm|ihn) (?:hat|ist|war|wird|muss|liegt|bekommt|nimmt)\b",
    r"\b(?:[Pp]atientin?|Klientin?)\b",
    # French
    r"\b(?:[Mm]on|[Mm]a|[Ss]on|[Ss]a|[Nn]otre|[Mm]es|[Vv]otre) (?:\w+ )?(?:mere|maman|pere|papa|mari"
        r"|femme|epouse|conjointe?|compagne|compagnon|fils|fille|frere|soeur|tante|oncle|grand-mere"
        r"|grand-pere|collegue|chef|enfant|bebe|amie?|voisine?|medecin|psychiatre|psy|cancer|tumeur"
        r"|traitement|grossesse|depression|operation|diagnostic|resultats?|biopsie|patiente?|opere)",
    r"\b(?:[Jj]e|[Jj]'ai|[Jj]'etais|m'a|m'ont|me|lui) ",
    r"\b(?:[Ee]lle|[Ii]l) (?:a|est|etait|refuse|souffre|prend|sera|doit|va|se)\b",
    r"\b(?:[Ll]a|[Ll]e|[Cc]ette|[Cc]e) patiente?\b",
    # Spanish
    r"\b(?:[Mm]i|[Ss]u|[Nn]uestr[oa]) (?:\w+ )?(?:madre|mama|vieja|padre|papa|viejo|marido|esposo"
        r"|esposa|mujer|pareja|hijo|hija|hermano|hermana|tia|tio|abuela|abuelo|colega|companer[oa]"
        r"|jef[ea]|suegr[oa]|amig[oa]|novi[oa]|vecin[oa]|medic[oa]|psiquiatra|cancer|tumor|biopsia"
        r"|embarazo|diagnostico|medicacion|tratamiento|paciente)",
    r"\b(?:[Mm]e|le) (?:han?|dieron|dio|diagnosticaron|operan|operaron|operaran|encontraron|recet\w+"
        r"|ingres\w+|cambi\w+|dijeron|sali[oe]|detectaron)\b",
    r"\b(?:[Ee]stoy|[Tt]engo|[Tt]uve|[Ss]oy|[Pp]adezco|[Ss]ufro|[Tt]omo|[Ff]ui)\b",
    r"\b[Ee]l?la? (?:esta|tiene|tuvo|padece|sufre)\b", r"\b(?:[Ll]a|[Ee]l|[Ee]ste|[Ee]sta) paciente\b",
    # Italian
    r"\b(?:[Mm]i[ao]|[Ss]u[ao]|[Nn]ostr[ao]) (?:\w+ )?(?:madre|mamma|padre|papa|marito|moglie"
        r"|compagn[oa]|figli[oa]|fratello|sorella|zi[oa]|nonn[oa]|collega|capo|suocer[oa]|amic[oa]"
        r"|vicin[oa]|medico|psichiatra|tumore|cancro|biopsia|gravidanza|diagnosi|terapia|cura|paziente)",
    r"\b(?:[Mm]i|gli|le) (?:hanno|ha|e stat[oa]|operano|e venut[oa]|fanno)\b",
    r"\b(?:[Hh]o|[Ss]ono|[Ss]offro|[Pp]rendo|[Dd]evo)\b", r"\b(?:[Ll]a|[Ii]l|[Qq]uest[oa]) paziente\b",
    # Portuguese
    r"\b(?:[Mm]inha|[Mm]eu|[Ss]ua|[Ss]eu|[Nn]oss[oa]) (?:\w+ )?(?:mae|pai|marido|esposa|mulher"
        r"|companheir[oa]|filh[oa]|irma[o]?|ti[ao]|avo|colega|chefe|sogr[oa]|amig[oa]|namorad[oa]"
        r"|vizinh[oa]|medic[oa]|psiquiatra|cancer|cancro|tumor|biopsia|gravidez|diagnostico|medicacao"
        r"|tratamento|paciente|utente|doente)",
    r"\b(?:[Ee]stou|[Tt]enho|[Tt]ive|[Ff]ui|[Ss]ofro|[Tt]omo|[Ff]iz)\b",
    r"\b(?:[Mm]e|lhe) (?:diagnosticaram|disseram|deram|receitaram|operaram)\b",
    r"\b(?:[Aa]|[Oo]|[Ee]ste|[Ee]sta) (?:paciente|utente|doente)\b",
    r"\bel[ea] (?:esta|tem|teve|sofre|parou|toma|foi|num)\b",
    # Dutch
    r"\b(?:[Mm]ijn|[Mm]'n|[Zz]ijn|[Hh]aar|[Oo]nze?) (?:\w+ )?(?:moeder|mama|ma|vader|papa|man|vrouw"
        r"|partner|zoon|dochter|broer|zus|tante|oom|oma|opa|collega|baas|kind|baby|vriendin?|buurvrouw"
        r"|buurman|arts|huisarts|psychiater|kanker|tumor|biopsie|zwangerschap|diagnose|medicatie"
        r"|behandeling|patient)",
    r"\b(?:[Ii]k|[Kk]heb|mij)\b",
    r"\b(?:[Hh]ij|[Zz]ij|[Zz]e) (?:heeft|is|was|krijgt|moet|ligt|slikt|wordt)\b",
    r"\b(?:[Dd]e|[Dd]eze) patient(?:e)?\b",
)  # fmt: skip

#: Directly before a condition, at most one word between: somebody has it.
HAS: tuple[str, ...] = (
    r"\b(?:have|has|had|having|got|with|my|her|his|i'm|he's|she's|am|on|feel|also|unter|an|hat|habe"
        r"|hatte|meine[nmrs]?|seine[nmrs]?|ihre[nmrs]?|mein|sein)\b",
    r"\b(?:j'ai|elle a|il a|mon|ma|son|sa|tengo|tiene|tuve|mi|su|soy|ho|ha|mia|mio|sua|suo|tenho|tem"
        r"|tive|meu|minha|seu|heb|heeft|had|mijn|haar|zijn)\b",
    r"'s\b",
)  # fmt: skip

#: What happened, was found, is given or is planned.
COURSES: tuple[str, ...] = (
    "diagnos", "diagnost", r"showe?[dns]?\b", r"shown\b", "reveal", "confirm", r"positiv", "came back",
    "is back", "progress", "spread", "got worse", "getting worse", r"stage (?:[1-4]|i+v?)\b", r"suffer",
    r"took\b", r"[0-9]+ ?(?:mg|mcg|ml|units?)\b", "prescri", "started on", "put (?:me|him|her) on",
    "increased", "admitted", "hospital", "discharged from", r"ward\b", "operat", "theatre", "booked",
    "listed for", r"scheduled", "referred", "waiting list", "bleeding", "in pain", "can't sleep", "died",
    "passed away", r"sick\b", "signed off", "recover", "relapsed", r"clean\b", r"sober\b", "in labou?r",
    "lost (?:the|a|our|her) (?:baby|pregnancy)", "underwent", "undergo",
    r"had (?:a|an|another|her|his|my) ", "weeks (?:pregnant|off|along)", "months (?:pregnant|to live)",
    "suggests", "found (?:a|an|something|out)", "too ill", "hallucinat", "allerg", "treated", "treatment",
    "therapy", "since (?:the|her|his|my|last|mon|tue|wed|thu|fri|sat|sun|yesterday)", "again", r"weeks\b",
    "befund", "semaines?", "semanas?", "settimane", r"mesi\b", r"mois\b", "meses", r"weken\b", "maanden",
    r"monat", r"woche", "referto", "infarto",
    "festgestellt", "diagnostiziert", "gefunden", r"ergab", r"zeigt", "bestatigt", "bosartig", "gutartig",
    "gestreut", "verschlechtert", "verschlimmert", "fortgeschritten", "leide", r"nehme\b", r"nimmt\b",
    "verschrieben", "verordnet", "erhoht", "eingeliefert", "krankenhaus", "klinik", "spital", "entlassen",
    "operiert", "muss (?:sofort |bald |jetzt )?(?:operiert|behandelt)", "behandel", "therapie", "empfiehlt",
    "uberwiesen", "termin", "krankgeschrieben", "arbeitsunfahig", "verstorben", "gestorben", "stationar",
    r"seit\b", r"nach meine[mr]", "ausfallen", "bekommen", "erlitten", r"hatte\b", "gesehen",
    "diagnosti", r"montre", "revele", "confirme", r"positi[fv]", "maligne", "benign", "aggrav", "souffr",
    r"prescri", "augmente", "hospital", "hopital", "clinique", "opere", "operer",
    "commencer (?:un|le|la|son|mon)", "traite", "suivi", "rendez-vous", "en arret", "decede", r"depuis\b",
    "perdu (?:le|un|mon|son) bebe", r"annonce", r"trouve", "fait une", r"refuse\b", r"subi\b",
    r"mostr", "revel", "confirm", r"positiv[oa]", "malign[oa]", "empeor", "avanz", r"padec", r"sufr",
    r"recet", "aument", "ingres", "hospital", "clinica", "oper(?:ar|an|aron|ado|ada)", "cita\\b", "de baja",
    "fallec", "murio", r"desde\b", "encontr", "detect", r"cambiado", r"resultado", r"sali[o]\b", r"dieron",
    "no puedo dormir",
    "mostra", "rivela", "positiv[oa]", "malign[oa]", "peggior", "soffr", "prescri", "ricover", "ospedale",
    "operat[oa]", "operano", "in cura", "curare", "decedut", "mort[oa]",
    r"\bda (?:ieri|lunedi|martedi|mercoledi|giovedi|venerdi|due|tre|quattro|un|qualche|mesi|anni)",
    "trovat", "scopert", "ritirato", "e venuto fuori", "appuntamento", "aumentat",
    "mostrou", "revelou", "positiv[oa]", "pior", "sofr", "receit", "internad", "internament", "operad",
    "tratamento", "consulta", "de baixa", "falec", "morreu", "encontr", "descobr",
    "deu (?:positivo|maligno)", "comecei", "parou",
    "vastgesteld", "toont", "liet zien", "bevestigd", "kwaadaardig", "goedaardig", "uitgezaaid",
    "verergerd", "lijd", "voorgeschreven", "verhoogd", "opgenomen", "ziekenhuis", "kliniek", "geopereerd",
    "behandeld", "afspraak", "ziek\\b", "overleden", "sinds\\b", "gevonden", "gekregen", "uitslag",
    "doorverwezen",
)  # fmt: skip

#: Words that alone tie an illness to somebody: nobody says them of nobody.
EVENTS: tuple[str, ...] = (
    r"(?:my|her|his|our) (?:\w+ ){1,2}(?:cuts|is cutting|hurts|starves) (?:herself|himself)",
    r"i(?:'ve| have)? (?:been |started )?(?:cutting|cut|harmed|harming) myself",
    r"i (?:had|'ve had|'m having|am having) (?:an? )?(?:abortion|miscarriage|stroke|heart attack"
        r"|seizure|hysterectomy|mastectomy|vasectomy)",
    r"i(?:'m| am)(?: \w+)? (?:pregnant|bipolar|hiv positive|infertile|in rehab|in hospital"
        r"|schizophrenic|diabetic|epileptic|an? (?:recovering )?(?:alcoholic|addict))",
    r"(?:i|he|she)(?:'ll|'s| will| has to| is going to)? (?:be|go|went|been|is|was|am"
        r"|are) (?:back )?(?:in|into|to) (?:hospital|surgery|theatre|rehab|icu|intensive care) (?:from|on"
        r"|since|for|with|after|last|next|this|today|tonight|tomorrow|as|because)",
    r"they (?:put|have put|'ve put) (?:me|her|him) on \w+", r"(?:last|another|third|second) round of chemo",
    r"(?:wurde|werde|wird) (?:\w+ ){1,4}(?:eingeliefert|operiert|stationar)", r"weeks? post[- ]?op",
    r"i(?:'ve| have)? (?:just |recently )?(?:relapsed|miscarried|tested positive)",
    r"(?:i|she|he) (?:was|were|am|is|has been|'s been|have been|had been) (?:just |recently "
        r"|only )?(?:diagnosed|hospitali[sz]ed|sectioned|admitted to (?:hospital|icu|the ward"
        r"|intensive care))",
    r"(?:my|her|his|our) (?:\w+ )?(?:biopsy|scan|mri|mammogram|smear|ultrasound|blood test|hiv test"
        r"|std test|sti test|pregnancy test|results?) (?:came back|is back|are back|was (?:positive"
        r"|abnormal)|showed|shows|found|revealed)",
    r"(?:ich bin|er ist|sie ist) (?:seit \w+ |bis \w+ |wieder |noch |weiterhin |fur \w+ "
        r"|weitere \w+ \w+ ){0,2}(?:krankgeschrieben|arbeitsunfahig|schwanger|hiv-positiv)",
    r"bin ich (?:\w+ ){0,4}(?:krankgeschrieben|arbeitsunfahig|schwanger)",
    r"(?:bei mir|bei meine[rm] \w+|bei ihm|bei ihr) (?:wurde|ist"
        r"|hat man) (?:\w+ ){0,4}(?:diagnostiziert|festgestellt|gefunden)",
    r"(?:on vient de|on|ils|medecins?|docteur) (?:m'a|lui a|me|l'ont|m'ont|ont) (?:\w+ )?diagnosti\w+",
    r"je suis (?:\w+ ){0,2}(?:enceinte|seropositi\w+|en arret maladie|hospitalise?e?)",
    r"(?:m'a|m'ont|lui a|lui ont) (?:\w+ )?(?:diagnostique|trouve) (?:une?|un cancer|du diabete|la)",
    r"(?:me|le|nos) (?:han?|acaban de) (?:\w+ )?diagnostica\w+", r"(?:me|le) (?:diagnosticaron|detectaron)",
    r"estoy (?:\w+ ){0,2}(?:embarazada|de baja (?:medica|por)|ingresad[oa])", r"soy seropositiv[oa]",
    r"mi (?:hanno|ha|e stat[oa]) (?:\w+ )?(?:diagnosticat\w+|trovat[oa] un)",
    r"sono (?:\w+ ){0,2}(?:incinta|sieropositiv[oa]|ricoverat[oa]|in malattia)",
    r"(?:fui|foi|foram) (?:\w+ )?(?:diagnosticad[oa]|internad[oa])", r"(?:me|lhe) diagnosticaram",
    r"estou (?:\w+ ){0,2}(?:gravida|internad[oa]|de (?:baixa|atestado))",
    r"sou (?:soropositiv[oa]|seropositiv[oa])",
    r"(?:ik ben|hij is|zij is|ze is) (?:\w+ ){0,3}(?:zwanger|ziek gemeld|opgenomen|overspannen"
        r"|hiv-positief)",
    r"(?:bij mij|bij mijn \w+|bij haar|bij hem) (?:is|werd) (?:\w+ ){0,4}(?:vastgesteld|ontdekt"
        r"|gevonden)",
)  # fmt: skip

#: A tale, a lesson, a form, code, or an animal.
LESSONS: tuple[str, ...] = (
    "novel", "fiction", "story\\b", "tale\\b", "character\\b", "poem", "lyrics", "film\\b", "movie",
    "episode", "essay", "homework", "exam\\b", "quiz", "students?\\b", "teaching", "lesson", "lecture",
    "flashcard", "template", "leaflet", "poster", "guideline", "in general", "generic", "hypothetical",
    "pretend", "example", "translate", "museum", "exhibition", "history", "century", "synthetic", "vet\\b",
    "(?:my|our|the) (?:dog|cat|horse|sheep|ewe|cow)\\b", "study (?:showed|found|shows|of)", "trial",
    "per ?cent", "blog", "article", "role[- ]?play", "osce", "simulat", "actor", "fill in the gaps",
    "vignette", "17[0-9]{2}\\b", "18[0-9]{2}\\b", "faker?\\b", "unit tests?",
    "roman\\b", "roman(?:figur|held)", "geschichte\\b", "gedicht", "krimi", "prufung", "klausur", "schul",
    "unterricht", "referat", "fiktiv", "ubersetz", "beispiel", "allgemein", "vorlage", "plakat",
    "merkblatt", "leitlinie", "hund\\b", "katze\\b", "tierarzt", "pferd\\b", "hauptfigur", "drehbuch",
    "studie",
    "roman\\b", "nouvelle\\b", "personnage", "poeme", "scenario", "examen\\b", "expose\\b", "cours\\b",
    "eleves?", "etudiant", "fictif", "fictive", "traduis", "traduire", "exemple", "en general", "modele de",
    "affiche", "depliant", "mon (?:chien|chat|cheval)", "veterinaire", "musee", "siecle", "etude\\b",
    "novela", "cuento", "personaje", "poema", "guion", "examen de", "clase\\b", "alumn[oa]s", "estudiantes",
    "fictici[oa]", "traduce", "ejemplo", "en general", "plantilla", "cartel", "folleto",
    "mi (?:perr[oa]|gat[oa]|caballo)", "veterinari", "museo", "siglo", "estudio\\b",
    "romanzo", "racconto", "personaggio", "poesia", "sceneggiatura", "esame di", "compito", "studenti",
    "lezione", "fittizi", "inventat", "traduci", "esempio", "in generale", "modello", "volantino",
    "opuscolo", "il mio (?:cane|gatto|cavallo)", "secolo", "studio\\b",
    "romance\\b", "conto\\b", "personagem", "roteiro", "prova de", "aula\\b", "aluno", "ficticio", "traduz",
    "exemplo", "em geral", "modelo de", "cartaz", "folheto", "meu (?:cachorro|cao|gato|cavalo)", "seculo",
    "estudo\\b", "faculdade",
    "verhaal", "personage", "gedicht", "scenario", "tentamen", "les\\b", "leerlingen", "studenten",
    "spreekbeurt", "fictie", "vertaal", "voorbeeld", "in het algemeen", "sjabloon", "folder\\b",
    "mijn (?:hond|kat|paard)", "dierenarts", "eeuw", "onderzoek (?:toont|laat)",
)  # fmt: skip
