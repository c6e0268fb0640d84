"""Scores of the product's own parts on labelled data.

Enters: labelled rows. Leaves: figures with intervals. Never: training, or a threshold chosen here.
"""
