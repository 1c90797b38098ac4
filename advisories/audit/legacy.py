"""Model names from the days before owners, and the namespaces they live under today."""

from __future__ import annotations

SENTENCE_TRANSFORMERS = "sentence-transformers"
"""The owner that the library of this name puts before a name without one."""

_BY_OWNER = {
    "openai-community": """
        gpt2 gpt2-medium gpt2-large gpt2-xl openai-gpt roberta-base-openai-detector roberta-large-openai-detector
    """,
    "google-bert": """
        bert-base-uncased bert-large-uncased bert-base-cased bert-large-cased bert-base-multilingual-uncased
        bert-base-multilingual-cased bert-base-chinese bert-base-german-cased bert-base-german-dbmdz-cased
        bert-base-german-dbmdz-uncased bert-large-uncased-whole-word-masking bert-large-cased-whole-word-masking
        bert-large-uncased-whole-word-masking-finetuned-squad bert-large-cased-whole-word-masking-finetuned-squad
        bert-base-cased-finetuned-mrpc
    """,
    "FacebookAI": """
        roberta-base roberta-large roberta-large-mnli xlm-roberta-base xlm-roberta-large
        xlm-roberta-large-finetuned-conll02-dutch xlm-roberta-large-finetuned-conll02-spanish
        xlm-roberta-large-finetuned-conll03-english xlm-roberta-large-finetuned-conll03-german xlm-mlm-en-2048
        xlm-mlm-ende-1024 xlm-mlm-enfr-1024 xlm-mlm-enro-1024 xlm-mlm-tlm-xnli15-1024 xlm-mlm-xnli15-1024
        xlm-clm-enfr-1024 xlm-clm-ende-1024 xlm-mlm-17-1280 xlm-mlm-100-1280
    """,
    "distilbert": """
        distilbert-base-uncased distilbert-base-cased distilbert-base-uncased-distilled-squad
        distilbert-base-cased-distilled-squad distilbert-base-german-cased distilbert-base-multilingual-cased
        distilbert-base-uncased-finetuned-sst-2-english distilgpt2 distilroberta-base
    """,
    "albert": """
        albert-base-v1 albert-large-v1 albert-xlarge-v1 albert-xxlarge-v1
        albert-base-v2 albert-large-v2 albert-xlarge-v2 albert-xxlarge-v2
    """,
    "google-t5": "t5-small t5-base t5-large t5-3b t5-11b",
    "xlnet": "xlnet-base-cased xlnet-large-cased",
    "almanach": "camembert-base",
    "transfo-xl": "transfo-xl-wt103",
}
LEGACY = {name: owner for owner, names in _BY_OWNER.items() for name in names.split()}
"""Owner by old name. The Hub redirects the old name there."""
