"""Writes games in the .efg format with the exporter of OpenSpiel 2.0.2: rounded decimals, no names of information sets."""

from pathlib import Path

import pyspiel
from open_spiel.python.algorithms.gambit import export_gambit

GAMES = {
    "openspiel-kuhn.efg": "kuhn_poker",
    "openspiel-leduc-isomorphic.efg": "leduc_poker(suit_isomorphism=true)",
}

for name, game in GAMES.items():
    Path(__file__).with_name(name).write_text(export_gambit(pyspiel.load_game(game)))
