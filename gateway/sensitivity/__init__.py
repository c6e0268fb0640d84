"""What a request holds: identifiers of people and accounts, credentials, and what cannot be read.

Enters: a resolved request and the label floors that others found. Leaves: a `Verdict` with a label, and
for every part whether it was scanned. The same detectors serve the output filter by `DetectorSet.find`.
Never: this room keeps no matched text, logs nothing, lowers no label and opens no file or socket.
"""
