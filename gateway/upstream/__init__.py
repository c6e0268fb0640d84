"""The only room that opens connections to destinations.

Enters: an `Admitted` and one of its destinations. Leaves: an open answer, or a typed refusal.
Never: a connection for anything but an `Admitted`; a destination outside its permit; a redirect
followed; a client's header forwarded; a provider's error text passed on.
"""
