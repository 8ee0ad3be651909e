"""Loads an exported model with `transformers` and computes what GDF said of it.

Usage: python check_export.py MODEL_DIR TEXT_FILE VALID_FRACTION SEQUENCE_LENGTH PROMPT MAX_TOKENS
Prints one JSON object: the mean loss over every target of the held-out part (docs/job-spec.md: the last part of
the data; one id a byte), and the greedy continuation of PROMPT, which must fit the context.
"""
import json
import sys

import torch
from transformers import AutoModelForCausalLM

folder, text_file, fraction, length, prompt, max_tokens = sys.argv[1:]
length, max_tokens = int(length), int(max_tokens)
model = AutoModelForCausalLM.from_pretrained(folder).eval()
data = open(text_file, "rb").read()
held_out = torch.tensor(list(data[int((1 - float(fraction)) * len(data)):]))

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
    ids = list(prompt.encode())
    for _ in range(max_tokens):
        ids.append(int(model(torch.tensor(ids[-length:])[None]).logits[0, -1].argmax()))
print(json.dumps({"loss": total / targets, "text": bytes(ids[len(prompt.encode()):]).decode("utf-8", "replace"),
                  "parameters": sum(p.numel() for p in model.parameters())}))
