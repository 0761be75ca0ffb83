"""Both sides of a study in one file: two wards with ledgers on disk, and a learner with scikit-learn's verbs.

In real life the two halves run on different machines, with a carrier between them. Run: python docs/tour/study.py
"""

import tempfile
from pathlib import Path

import polars as pl

import expril

HERE = Path(__file__).parent
records = expril.read_records(HERE / "records.csv")


# The curator's half: each ward has a folder with its records, a schema, a policy, a key and a ledger. A steward makes
# key and ledger once, by `expril keys` and `expril ledger create`; `create_site` is that, in one call.
def open_ward(ward: str, learner_key: str, folder: Path):  # a context manager, which answers requests
    policy = f"""
        name = "{ward}"
        cap = 2                     # epsilon over all learners, for ever
        [[learners]]
        name = "ada"
        key = "{learner_key}"
        cap = 1                     # and of this one
    """
    private = records.filter((pl.col("ward") == ward) & (pl.col("patient") >= "p0150"))
    expril.create_site(folder, policy=policy, schema=(HERE / "schema.toml").read_text(), records=private)
    return expril.open_site(folder)  # each start of the curator is this line


# The learner's half: unlabelled source records, a key, the curators' public keys, and a way to reach them.
with tempfile.TemporaryDirectory() as folder:
    ada = expril.SigningKey.generate()
    wards = {ward: open_ward(ward, ada.public.hex(), Path(folder, ward)) for ward in ("internal", "surgery")}
    federation = expril.direct_federation(wards, ada)
    source = records.filter(pl.col("patient") < "p0150").drop("readmitted")

    model = expril.ExPriLClassifier(federation, epsilon="3/4", purpose="Who comes back within a month?").fit(source)

    print("classes", model.classes_, "- claimed", model.epsilon_claimed_, "- spent", model.epsilon_spent_)
    print(model.predict_proba(source).round(2)[:3])

    # The source's attributes, weighted and labelled like the private records. No patient, no ward.
    file = Path(folder) / "synthetic.csv"
    model.write_synthetic(file)
    header, first, *_ = file.read_text().splitlines()
    print(header, first, sep="\n")

    # Every fit is a new study: a second one does not fit what is left, and is refused before anything is charged.
    try:
        model.fit(source)
    except expril.ExprilError as refusal:
        print("refused:", refusal)
