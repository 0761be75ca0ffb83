"""Invented patients in the tables of OMOP's common data model (5.4, the columns that the example needs).

python make_omop.py URL [SEED], where URL is that of a SQLite file or of an empty PostgreSQL database, for SQLAlchemy.

About two stays in five have the diagnosis heart failure. Its chance grows with age, a natriuretic peptide, creatinine,
earlier stays, diabetes and high blood pressure, by the logistic formula below. Only `random.Random.random` is used,
whose numbers never change with Python's version.
"""

import math
import random
import sys
from datetime import date, timedelta

import sqlalchemy as sa

PERSONS = 2500
MALE, FEMALE = 8507, 8532
INPATIENT, EMERGENCY = 9201, 262  # 262: emergency room, then ward
HEART_FAILURE, DIABETES, HYPERTENSION, PNEUMONIA = 316139, 201826, 320128, 255848
NT_PRO_BNP, CREATININE, HAEMOGLOBIN = 3029187, 3016723, 3000963

METADATA = sa.MetaData()
PERSON = sa.Table(
    "person",
    METADATA,
    sa.Column("person_id", sa.Integer, primary_key=True),
    sa.Column("gender_concept_id", sa.Integer, nullable=False),
    sa.Column("year_of_birth", sa.Integer, nullable=False),
    sa.Column("race_concept_id", sa.Integer, nullable=False),
    sa.Column("ethnicity_concept_id", sa.Integer, nullable=False),
)
VISIT = sa.Table(
    "visit_occurrence",
    METADATA,
    sa.Column("visit_occurrence_id", sa.Integer, primary_key=True),
    sa.Column("person_id", sa.ForeignKey(PERSON.c.person_id), nullable=False),
    sa.Column("visit_concept_id", sa.Integer, nullable=False),
    sa.Column("visit_start_date", sa.Date, nullable=False),
    sa.Column("visit_end_date", sa.Date, nullable=False),
    sa.Column("visit_type_concept_id", sa.Integer, nullable=False),
)
CONDITION = sa.Table(
    "condition_occurrence",
    METADATA,
    sa.Column("condition_occurrence_id", sa.Integer, primary_key=True),
    sa.Column("person_id", sa.ForeignKey(PERSON.c.person_id), nullable=False),
    sa.Column("condition_concept_id", sa.Integer, nullable=False),
    sa.Column("condition_start_date", sa.Date, nullable=False),
    sa.Column("condition_type_concept_id", sa.Integer, nullable=False),
    sa.Column("visit_occurrence_id", sa.ForeignKey(VISIT.c.visit_occurrence_id)),
)
MEASUREMENT = sa.Table(
    "measurement",
    METADATA,
    sa.Column("measurement_id", sa.Integer, primary_key=True),
    sa.Column("person_id", sa.ForeignKey(PERSON.c.person_id), nullable=False),
    sa.Column("measurement_concept_id", sa.Integer, nullable=False),
    sa.Column("measurement_date", sa.Date, nullable=False),
    sa.Column("measurement_type_concept_id", sa.Integer, nullable=False),
    sa.Column("value_as_number", sa.Numeric(12, 2)),
    sa.Column("visit_occurrence_id", sa.ForeignKey(VISIT.c.visit_occurrence_id)),
)


def population(seed):
    """Rows by table, as dictionaries."""
    draw = random.Random(seed).random
    rows = {table: [] for table in METADATA.sorted_tables}
    for person in range(1, PERSONS + 1):
        born = 1930 + int(60 * min(draw(), draw()))
        gender = FEMALE if draw() < 0.5 else MALE
        frailty = sum(draw() for _ in range(12)) - 6  # about a standard normal
        diabetes, pressure = draw() < 0.2 + 0.05 * frailty, draw() < 0.4 + 0.06 * frailty
        add(rows, PERSON, person, gender_concept_id=gender, year_of_birth=born)
        start = date(2018, 1, 1) + timedelta(days=int(700 * draw()))
        for earlier in range(1 + int(2.6 * draw() * (draw() + (frailty > 0.5)))):
            bnp = math.exp(5.9 + 0.9 * frailty + 1.1 * (draw() + draw() - 1))
            creatinine = 0.6 + 1.2 * draw() ** 2 + 0.4 * diabetes + max(0.0, 0.2 * frailty)
            score = 0.07 * (start.year - born - 65) + 1.5 * (math.log(bnp) - 5.9) + 1.3 * (creatinine - 1.1)
            score += 0.6 * earlier + 0.7 * diabetes + 0.6 * pressure + 0.3 * (gender == MALE) - 1.1
            failing = draw() < 1 / (1 + math.exp(-score))
            concept = EMERGENCY if draw() < 0.35 + 0.3 * failing else INPATIENT
            days = 1 + int(-4 * math.log(1 - draw()) * (1.4 if failing else 0.9))
            end = start + timedelta(days=days)
            visit = add(rows, VISIT, person, visit_concept_id=concept, visit_start_date=start, visit_end_date=end)
            diagnoses = {HEART_FAILURE: failing, DIABETES: diabetes, HYPERTENSION: pressure, PNEUMONIA: draw() < 0.1}
            for which in [each for each, there in diagnoses.items() if there]:
                add(
                    rows,
                    CONDITION,
                    person,
                    condition_concept_id=which,
                    condition_start_date=start,
                    visit_occurrence_id=visit,
                )
            haemoglobin = 15.0 - 1.3 * (gender == FEMALE) - 0.7 * frailty + 2 * (draw() - 0.5)
            for which, value in ((NT_PRO_BNP, bnp), (CREATININE, creatinine), (HAEMOGLOBIN, haemoglobin)):
                for _ in range(int(draw() * 2.9)):  # not measured, once, or twice
                    add(
                        rows,
                        MEASUREMENT,
                        person,
                        measurement_concept_id=which,
                        measurement_date=start + timedelta(days=int(draw() * days)),
                        value_as_number=round(value * (0.95 + 0.1 * draw()), 2),
                        visit_occurrence_id=visit,
                    )
            start = end + timedelta(days=20 + int(400 * draw()))
    return rows


def add(rows, table, person, **values):
    """Append a row; its number. What is required and means nothing here is 0."""
    number = len(rows[table]) + 1
    required = {column.name: 0 for column in table.columns if not column.nullable}
    key = next(iter(table.primary_key)).name
    rows[table].append({**required, "person_id": person, key: number, **values})
    return number


def write(url, seed):
    """Make the tables and fill them; how many rows each has."""
    engine = sa.create_engine(url)
    METADATA.create_all(engine)
    rows = population(seed)
    with engine.begin() as connection:
        for table in METADATA.sorted_tables:
            connection.execute(table.insert(), rows[table])
    engine.dispose()
    return {table.name: len(rows[table]) for table in METADATA.sorted_tables}


if __name__ == "__main__":
    for name, count in write(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1).items():
        print(f"{name}: {count} rows")
