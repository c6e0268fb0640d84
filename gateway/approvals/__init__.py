"""People's permission for single requests.

Enters: what a request is bound to, and who decides. Leaves: an approval with its state, or a reason why not.
Never: text of a request, a second use, a decision by the person who asked, an answer without the store.
"""
