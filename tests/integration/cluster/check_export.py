"""Loads an exported model with `transformers` and computes what GDF said of it.

Usage: python check_export.py MODEL_DIR TEXT_FILE VALID_FRACTION SEQUENCE_LENGTH PROMPT MAX_TOKENS
Prints one JSON object: the mean loss over every target of the held-out part (docs/job-spec.md: the last part of
the data), the greedy continuation of PROMPT, which must fit the context, the special ids that the folder names,
what the tokenizer makes of a text with characters that the data lacks (null: refuses it), and whether the file is
what the `tokenizers` library would save.
"""
import json
import os
import sys

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, text_file, fraction, length, prompt, max_tokens = sys.argv[1:]
length, max_tokens = int(length), int(max_tokens)
model = AutoModelForCausalLM.from_pretrained(folder).eval()
tokenizer = AutoTokenizer.from_pretrained(folder)
with open(text_file, encoding="utf-8", newline="") as file:
    text = file.read()
data = tokenizer(text)["input_ids"]
assert tokenizer.decode(data) == text
held_out = torch.tensor(data[int((1 - float(fraction)) * len(data)):])

# Windows of `length` targets, one after the other; the last one is moved back to the end and counts only what is new.
total, targets = 0.0, len(held_out) - 1
with torch.no_grad():
    done = 0
    while done < targets:
        start = min(done, targets - length)
        logits = model(held_out[start:start + length][None]).logits[0]
        losses = torch.nn.functional.cross_entropy(logits, held_out[start + 1:start + length + 1], reduction="none")
        total += losses[done - start:].double().sum().item()
        done = start + length
    start = tokenizer(prompt, return_tensors="pt")
    ids = model.generate(**start, max_new_tokens=max_tokens, do_sample=False)[0, start["input_ids"].shape[1]:]


def ids_of_unknown():
    try:
        return tokenizer("the €")["input_ids"]
    except Exception as error:
        if "not found in the vocabulary" not in str(error):
            raise
        return None


named = [getattr(c, f"{which}_token_id") for which in ("bos", "eos", "pad")
         for c in (model.config, model.generation_config, tokenizer)]
tokenizer_file = os.path.join(folder, "tokenizer.json")
with open(tokenizer_file, encoding="utf-8") as file:
    as_saved = json.load(file) == json.loads(Tokenizer.from_file(tokenizer_file).to_str())
print(json.dumps({"loss": total / targets, "text": tokenizer.decode(ids), "tokens": len(ids), "unknown": ids_of_unknown(),
                  "special": [i for i in named if i is not None], "as_saved": as_saved, "ids": len(tokenizer)}))
