"""Writes golden/: tiny models with the logits, loss, gradients and greedy text that `transformers` computes.

Usage: python make_golden.py OUT_DIR      (torch 2.11, transformers 5; run once, the result is committed)
"""
import json, os, sys
import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

VOCAB, CONTEXT = 23, 32
models = {
    "gpt2": (GPT2LMHeadModel, GPT2Config(
        vocab_size=VOCAB, n_positions=CONTEXT, n_embd=16, n_layer=2, n_head=4, n_inner=24,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0)),
    "llama": (LlamaForCausalLM, LlamaConfig(
        vocab_size=VOCAB, max_position_embeddings=CONTEXT, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5, tie_word_embeddings=False,
        rope_parameters={"rope_type": "llama3", "rope_theta": 1000.0, "factor": 4.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 16},
        bos_token_id=0, eos_token_id=0)),
    "llama_bias": (LlamaForCausalLM, LlamaConfig(
        vocab_size=VOCAB, max_position_embeddings=CONTEXT, hidden_size=16, intermediate_size=24, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-6, tie_word_embeddings=True,
        attention_bias=True, mlp_bias=True, bos_token_id=0, eos_token_id=0)),
}
out = sys.argv[1]
for index, (name, (cls, config)) in enumerate(models.items()):
    torch.manual_seed(index)
    model = cls(config).eval()
    with torch.no_grad():
        for p in model.parameters():            # far from the initial law, so that every term matters
            p.copy_(p + 0.2 * torch.randn_like(p))
    folder = os.path.join(out, name)
    model.save_pretrained(folder)
    for extra in ("generation_config.json",):
        os.unlink(os.path.join(folder, extra))
    ids = torch.randint(VOCAB, (3, 13))
    logits = model(ids[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    save_file({n: p.grad.contiguous() for n, p in model.named_parameters()}, os.path.join(folder, "gradients.safetensors"))
    greedy = model.generate(ids[:1, :5], max_new_tokens=20, do_sample=False, eos_token_id=None, pad_token_id=0)[0, 5:]
    with open(os.path.join(folder, "golden.json"), "w") as f:
        json.dump({"ids": ids.tolist(), "last_logits": logits[:, -1].tolist(), "loss": loss.item(),
                   "greedy_ids": greedy.tolist()}, f)
