"""Invented stays of invented patients in four hospitals: python docs/tour/make_encounters.py > encounters.csv

About one stay in ten is followed by another within 30 days. The chance of it grows with earlier stays, drugs, days
and an urgent admission, by a logistic formula below; a patient's own frailty makes the stays of one patient alike. Only
`random.Random.random` is used, whose numbers never change with Python's version.
"""

import math
import random
import sys

HOSPITALS = {"north": 0.45, "east": 0.25, "south": 0.2, "west": 0.1}
PATIENTS = 1900


def encounters(seed: int = 7) -> list[str]:
    """The lines of the file, header first, without line ends."""
    draw = random.Random(seed).random
    lines = ["patient,site,age,sex,admission,days,drugs,earlier,readmitted"]
    for number in range(PATIENTS):
        site, left = "west", draw()
        for name, share in HOSPITALS.items():
            left -= share
            if left < 0:
                site = name
                break
        age = int(25 + 70 * max(draw(), draw()) - 8 * (site == "south"))
        sex = "f" if draw() < 0.52 else "m"
        frailty = sum(draw() for _ in range(12)) - 6  # about a standard normal
        for earlier in range(1 + int(2.2 * draw() * (draw() + (frailty > 0.5)))):
            urgent = draw() < 0.45 + 0.1 * (age > 75)
            days = 1 + int(-4 * math.log(1 - draw()) * (1.3 if urgent else 0.8))
            drugs = max(0, int(6 + 3 * frailty + 0.05 * age + 8 * (draw() - 0.5)))
            logit = -5.4 + 0.11 * drugs + 0.55 * min(earlier, 4) + 0.9 * urgent + 0.05 * min(days, 14) + 0.01 * age
            again = draw() < 1 / (1 + math.exp(-logit - 0.5 * frailty))
            how = "urgent" if urgent else "planned"
            lines.append(f"p{number:04d},{site},{age},{sex},{how},{days},{drugs},{earlier},{'yes' if again else 'no'}")
    return lines


if __name__ == "__main__":
    sys.stdout.write("\n".join(encounters()) + "\n")
