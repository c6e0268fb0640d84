"""Values that rooms exchange: frozen, slotted, without behaviour beyond their own laws.

Enters: nothing. Leaves: nothing. Never: IO, time, chance, or a dict that crosses a room.
"""
