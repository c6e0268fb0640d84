"""Words by which an author says that a text is not for everybody: inside information, counsel, confidence.

A careful reader believes the mark, whatever the text is about. The words must be addressed to the reader
("treat this as", "do not circulate", "as your counsel"): what a mark *means* is a public question.

Languages: English, German, French, Spanish, Italian, Portuguese, Dutch; Chinese and Japanese in `HAN`.
"""

from __future__ import annotations

import re

from gateway.domain.label import Label, Level, Tag
from gateway.sensitivity.rule import Rule, Spans, is_word_byte, restricted
from gateway.sensitivity.views import View

_INSIDE = (
    r"you are (?:now |hereby |all )?(?:an insider|insiders|on the insider list)|(?:add|added"
    r"|put) (?:you |him |her |them )?(?:to|on) the insider list"
    r"|(?:treat|handle|regard|keep|consider)(?: \w+){1,4} as (?:strictly )?(?:inside|insider"
    r"|price[- ]sensitive|market[- ]sensitive|mnpi)\b"
    r"|(?:this|it|that|the \w+) (?:is|was|are|contains|constitutes|remains"
    r"|counts as) (?:still )?(?:inside information|insider information|price[- ]sensitive"
    r"|market[- ]sensitive|mnpi|material,? non-?public)"
    r"|strictly embargoed|(?:under|strict) embargo (?:until|till|to)|embargoed (?:until|till)"
    r"|(?:als (?:eine )?|ist |sind )insider-?information(?:en)?|(?:seid|sind) (?:ab sofort |nun "
    r"|jetzt )?insider|kursrelevant|sie (?:sind|gelten) (?:jetzt |nun |ab sofort )?(?:als )?insider"
    r"|(?:comme|est|sont|constitue\w*) (?:une |des )?informations? privilegiee?s?"
    r"|vous etes (?:desormais |maintenant )?initiee?s?"
    r"|(?:como|es|son|constituye) (?:\w+ )?informacion privilegiada|(?:come|e'|costituisce"
    r"|sono) (?:una )?informazion[ei] privilegiat[ae]"
    r"|(?:como|sao|constitui) informac(?:ao|oes) privilegiadas?|(?:als|is|blijft) voorwetenschap|(?:als"
    r"|is|zijn) koersgevoelige?"
)
_COUNSEL = (
    r"as your (?:legal )?(?:counsel|lawyers?|attorneys?|solicitors?|barrister|legal (?:adviser|advisor"
    r"|team))\b,? (?:i|we|my|our)"
    r"|(?:attorney|solicitor|lawyer)[- ]client (?:privileged?|communication)(?:[:.,]| - |$)"
    r"|privileged (?:and|&) confidential|legally privileged(?: and|[:.,]|$)"
    r"|als (?:ihre?|dein|deine|eure?) (?:anwalt|anwaltin|rechtsanwalt|rechtsanwaltin|kanzlei|verteidiger"
    r"|verteidigerin|rechtsbeistand|syndikus)\b|mandatsgeheimnis"
    r"|en (?:tant que|ma qualite de|notre qualite de) (?:votre |vos |ton )?(?:avocate?s?|conseils?"
    r"|defenseur)\b|couvert par le secret professionnel"
    r"|(?:como|en (?:mi )?calidad de) (?:su|tu|vuestr[oa]) (?:abogad[oa]|letrad[oa]|asesor\w* legal)"
    r"|secreto profesional entre"
    r"|(?:come|in qualita di|quale) (?:suo|sua|vostro|vostra|tuo) (?:avvocat[oa]|legale|difensore"
    r"|difensora)"
    r"|(?:como|na qualidade de|enquanto) (?:seu|sua|vosso|vossa|teu|tua) (?:advogad[oa]|mandatari[oa]"
    r"|defensor[a]?)"
    r"|als (?:uw|je|jouw|jullie) (?:advocaat|advocate|raadsman|raadsvrouw|jurist)"
)
_CONFIDENCE = (
    r"strictly (?:private (?:and|&) )?confidential|(?:please |pls )?(?:do not|don't"
    r"|not to be) (?:circulated?|distributed?|forward(?:ed)?|disclosed?|shared?|repeat(?:ed)?)(?:[.,;!)]"
    r"|$| (?:this|it|further|outside|until|to anyone|beyond|yet|with anyone)\b)"
    r"|not for (?:onward |external |wider )?(?:circulation|distribution|sharing)|(?:keep|kept) (?:this "
    r"|it |that |all this )?(?:strictly |just )?(?:between (?:us|you and me|ourselves)|to (?:yourself"
    r"|yourselves)|under wraps|under your hat|quiet (?:for now|until|please))"
    r"|(?:for )?your eyes only|in (?:the )?strict(?:est)? confidence|commercial[- ]in[- ]confidence"
    r"|company confidential|(?:is|are|still|our|the) unpatented"
    r"|streng vertraulich|(?:bitte )?nicht (?:weitergeben|weiterleiten|weitersagen|herumerzahlen"
    r"|nach aussen geben|verbreiten)|(?:bleibt|bleiben|behalten|bleibe) (?:\w+ )?unter uns"
    r"|unter uns bleiben|(?:striktes |absolutes )?stillschweigen (?:bewahren|wahren|bis)"
    r"|noch niemand (?:wissen|erfahren)"
    r"|strictement confidentiel|(?:ne pas|ne rien|merci de ne (?:pas|rien)|ne le"
    r"|ne la) (?:\w+ )?(?:diffuser|divulguer|ebruiter|transferer|faire circuler|communiquer)\b"
    r"|a garder (?:entre nous|pour (?:vous|toi)|confidentiel)|(?:reste|restons|gardez|gardons"
    r"|garde)(?: ca| cela| ceci| le)? (?:entre nous|pour (?:vous|toi))"
    r"|estrictamente confidencial|(?:por favor )?no (?:lo |la |los )?(?:difundir|difundas?|divulgar"
    r"|divulgues?|reenviar|reenvies?|circular)\b|(?:que )?quede? entre nosotros"
    r"|strettamente (?:riservat[oaie]|confidenzial[ei])|(?:si prega di )?non (?:divulgare|diffondere"
    r"|inoltrare|far circolare)\b|(?:che )?(?:resti|rimanga|resta) (?:tra|fra) (?:di )?noi"
    r"|acqua in bocca"
    r"|estritamente confidencial|nao (?:divulgar|divulguem?|difundir|repassar|repasse|encaminhar"
    r"|circular)\b|(?:que )?(?:fique|fica) (?:so )?entre nos\b|guard\w+ sigilo"
    r"|strikt vertrouwelijk|niet (?:verder )?(?:verspreiden|doorsturen|rondsturen|doorvertellen"
    r"|naar buiten brengen)\b|(?:blijft|blijven|houden) (?:\w+ )?onder ons|mondje dicht"
)
#: Signs of other scripts are `?` in the bytes, so these are read in the text.
_HAN_RUN = rb"\?{4,}"
_HAN_INSIDE = re.compile(
    r"インサイダ[ー-]情報(?:として|です|に該当|につき|なので)|未公表の重要事実|公表(?:前|まで)(?:は|に)?(?:他言|売買|口外)"
    r"|(?:属于|作为|(?<!什么)是)内幕信息(?!是|吗|？)|公告前[^。，]{0,12}(?:不得|不要|勿|禁止)|(?:作为|我是)您的律师|(?:顧問)?弁護士として(?:助言|申し上げ|お伝え)"
)
_HAN_CONFIDENCE = re.compile(
    r"社外秘|他言無用|極秘|口外(?:しないで|無用|厳禁)|内密に|ここだけの話|严格保密|(?:请勿|不要|切勿|别)(?:外传|泄露|转发|对外)|绝密|仅限内部传阅"
)


def marks(view: View, start: int, end: int) -> Spans:
    """The mark, when no word goes on at its ends."""
    if not is_word_byte(view.data, start - 1) and not is_word_byte(view.data, end):
        yield start, end


class _HanMarks:
    """Marks in scripts that the bytes do not hold."""

    __slots__ = ("_expression",)

    def __init__(self, expression: re.Pattern[str]) -> None:
        self._expression = expression

    def __call__(self, view: View, start: int, end: int) -> Spans:
        """Places of the marks in this run."""
        for match in self._expression.finditer(view.text, start, min(len(view.text), end + 8)):
            yield match.span()


def _pattern(words: str) -> bytes:
    return f"(?i)\\b(?:{words})".encode()


_CONFIDENTIAL = Label(Level.CONFIDENTIAL)
RULES: tuple[Rule, ...] = (
    Rule("inside-information", 1, restricted(Tag.MNPI), _pattern(_INSIDE), marks, is_about=True),
    Rule("inside-information", 1, restricted(Tag.MNPI), _HAN_RUN, _HanMarks(_HAN_INSIDE), is_about=True),
    Rule("legal-counsel", 1, restricted(Tag.LEGAL), _pattern(_COUNSEL), marks, is_about=True),
    Rule("confidence-mark", 1, _CONFIDENTIAL, _pattern(_CONFIDENCE), marks, is_about=True),
    Rule("confidence-mark", 1, _CONFIDENTIAL, _HAN_RUN, _HanMarks(_HAN_CONFIDENCE), is_about=True),
)
