"""What the network has acknowledged while it was disturbed, and what of it is missing in the end."""
import random
import subprocess
import threading
import json

PAUSE_SECONDS = (2, 6)
ROLES = ["admin,contributor", "admin,submitter,contributor"]


class Ledger:
    """Asks random nodes for random changes, one after the other, and keeps those that were acknowledged."""

    def __init__(self, network, job, waiting_job, text, seed):
        self.network, self.job, self.waiting_job, self.text = network, job, waiting_job, text
        self.rng = random.Random(seed)
        self.ended = threading.Event()
        self.acknowledged = self.refused = 0
        self.jobs = {}         # token: (id, phase)
        self.invites = {}      # id: revoked
        self.roles = {}        # name: roles; None: a call had no answer
        self.coordinators = {node.name: None for node in network.nodes}
        self.checkpoints = {}  # round: digest
        self.events = {}       # id: (at, text), of any follower
        self.followers = [Follower(node, job, self.events) for node in network.nodes]
        self.thread = threading.Thread(target=self._run)
        self.tokens = 0

    def start(self):
        listed = self.network.nodes[0].need("coordinator", "list")["coordinators"]
        self.coordinators = {node.name: any(c["name"] == node.name for c in listed) for node in self.network.nodes}
        self.thread.start()

    def end(self):
        self.ended.set()
        self.thread.join()

    def _run(self):
        while not self.ended.wait(self.rng.uniform(*PAUSE_SECONDS)):
            change = self.rng.choice([self._submit, self._submit, self._cancel, self._invite, self._invite, self._revoke, self._role, self._coordinator,
                                      self._look_at_checkpoints])
            answered = change(self.rng.choice(self.network.nodes))
            if answered is not None:
                self.acknowledged += answered
                self.refused += not answered

    def _submit(self, node):
        """Until the node takes it, under one token: there must be one job of it, however often that node was asked for it."""
        self.tokens += 1
        token = f"waiting-{self.tokens}"
        for _ in range(8):
            code, answer, _ = node.ask("submit", self.waiting_job, "--text", self.text, "--set", f"name={token}", "--submit-token", token)
            if code == 0:
                self.jobs[token] = (answer["job"], "pending")
                return True
            if self.ended.wait(1):
                break
        self.jobs[token] = (None, None)
        return False

    def _cancel(self, node):
        pending = [token for token, (_, phase) in self.jobs.items() if phase == "pending"]
        if not pending:
            return None
        token = self.rng.choice(pending)
        job = self.jobs[token][0]
        code = node.ask("job", "cancel", job)[0]
        self.jobs[token] = (job, "cancelled" if code == 0 else None)
        return code == 0

    def _invite(self, node):
        code, answer, _ = node.ask("invite", "--role", "contributor", "--ttl", "20h")
        if code == 0:
            self.invites[answer["id"]] = False
        return code == 0

    def _revoke(self, node):
        valid = [invite for invite, revoked in self.invites.items() if revoked is False]
        if not valid:
            return None
        invite = self.rng.choice(valid)
        code = node.ask("invite", "revoke", invite)[0]
        self.invites[invite] = True if code == 0 else None
        return code == 0

    def _role(self, node):
        """What had no answer may still be done later: of such a node no role is known any more."""
        of = self.rng.choice(self.network.nodes).name
        if self.roles.get(of, "") is None:
            return None
        roles = self.rng.choice(ROLES)
        code = node.ask("node", "role", of, roles)[0]
        self.roles[of] = roles if code == 0 else None
        return code == 0

    def _coordinator(self, node):
        """Three or four of them, so that one may always be lost."""
        known = {name: is_one for name, is_one in self.coordinators.items() if is_one is not None}
        if sum(known.values()) > 3:
            name, change = self.rng.choice([n for n, is_one in known.items() if is_one]), "remove"
        elif not all(known.values()):
            name, change = self.rng.choice([n for n, is_one in known.items() if not is_one]), "add"
        else:
            return None
        code = node.ask("coordinator", change, name)[0]
        self.coordinators[name] = change == "add" if code == 0 else None
        return code == 0

    def _look_at_checkpoints(self, node):
        code, answer, _ = node.ask("checkpoint", "list", self.job)
        if code == 0:
            for checkpoint in answer["checkpoints"]:
                self.checkpoints[checkpoint["round"]] = checkpoint["digest"]
        return None

    def missing(self):
        """After the job's end and with all nodes there: what is missing, as texts."""
        wrong = []
        for node in self.network.nodes:
            wrong += [f"{node.name}: {text}" for text in self._missing_on(node)]
        for follower in self.followers:
            wrong += follower.wrong()
        return wrong

    def _missing_on(self, node):
        jobs = {}
        for job in node.need("job", "list")["jobs"]:
            jobs.setdefault(job["name"], []).append(job)
        for token, (job, phase) in self.jobs.items():
            found = jobs.get(token, [])
            if len(found) > 1:
                yield f"job {token} is there {len(found)} times"
            if job is not None and [f["id"] for f in found] != [job]:
                yield f"{token} was acknowledged as {job} and is {[f['id'] for f in found]}"
            elif phase is not None and found[0]["phase"] != phase:
                yield f"{job} was acknowledged to be {phase} and is {found[0]['phase']}"
        invites = {invite["id"]: invite for invite in node.need("invite", "list")["invites"]}
        for invite, revoked in self.invites.items():
            if invite not in invites:
                yield f"invite {invite} is missing"
            elif revoked is not None and invites[invite]["revoked"] != revoked:
                yield f"invite {invite} should have revoked={revoked}"
        nodes = {other["name"]: other for other in node.need("node", "list")["nodes"]}
        for name, roles in self.roles.items():
            if roles is not None and set(nodes[name]["roles"].split(",")) != set(roles.split(",")):
                yield f"{name} was given {roles} and has {nodes[name]['roles']}"
        for name, is_one in self.coordinators.items():
            if is_one is not None and nodes[name]["coordinator"] != is_one:
                yield f"{name} should {'' if is_one else 'not '}coordinate"
        events = events_of(node, self.job)
        gone = [(number, text) for number, text in self.events.items() if events.get(number) != text]
        if gone:
            yield f"{len(gone)} events that were told are missing or others, such as {gone[0]}"
        kept = {c["round"]: c["digest"] for c in node.need("checkpoint", "list", self.job)["checkpoints"]}
        for number, digest in self.checkpoints.items():
            if kept.get(number) != digest:
                yield f"checkpoint {number} was {digest[:12]} and is {str(kept.get(number))[:12]}"

    def counts(self):
        return {"acknowledged": self.acknowledged, "not_acknowledged": self.refused, "jobs": sum(1 for job, _ in self.jobs.values() if job),
                "invites": len(self.invites), "events": len(self.events), "checkpoints": len(self.checkpoints)}


def events_of(node, job):
    code, out, error = node.lines("job", "logs", job)
    if code != 0:
        return {}
    return {line["event"]["id"]: line["event"]["text"] for line in out if line["type"] == "event"}


class Follower:
    """`job logs -f` on one node, through all that happens to it: it must end with the job."""

    def __init__(self, node, job, events):
        self.node, self.events = node, events
        self.verdict = None
        self.rounds = {}
        self.process = subprocess.Popen(node.command("job", "logs", "-f", job), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self):
        for line in self.process.stdout:
            update = json.loads(line)
            if update["type"] == "event":
                self.events[update["event"]["id"]] = update["event"]["text"]
            elif update["type"] == "round":
                self.rounds[update["round"]["round"]] = update["round"]
            else:
                self.verdict = update["job"]

    def wrong(self, seconds=60):
        try:
            code = self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = f"nothing within {seconds} s"
        self.thread.join()
        if code != 0 or self.verdict is None:
            return [f"`job logs -f` on {self.node.name} ended with {code} and {'a' if self.verdict else 'no'} verdict: {self.process.stderr.read()[-500:]}"]
        return []
