"""Writes games in the .efg format with the exporter of OpenSpiel 2.0.2: rounded decimals, no names of information sets."""

import gzip
from pathlib import Path

import pyspiel
from open_spiel.python.algorithms.gambit import export_gambit

GAMES = {
    "openspiel-kuhn.efg": "kuhn_poker",
    "openspiel-leduc-isomorphic.efg": "leduc_poker(suit_isomorphism=true)",
    "openspiel-leduc.efg.gz": "leduc_poker",
}

for name, game in GAMES.items():
    text = export_gambit(pyspiel.load_game(game)).encode()
    # Without a time stamp, the archive has the same bytes in every run.
    written = gzip.compress(text, mtime=0) if name.endswith(".gz") else text
    Path(__file__).with_name(name).write_bytes(written)
