"""`millrace state`, `millrace failed` and `millrace dead-letter`: a look at state and outcomes, and sending again."""

from __future__ import annotations

import argparse
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from services import settings
from services.arguments import add_command, add_json

if TYPE_CHECKING:
    from services.engine.sending_again import Outcome, Outcomes

ANSWER_TIMEOUT_S = 30.0


def add_commands(commands: Any) -> None:
    """Adds all three."""
    _add_state(commands)
    _add_outcomes(
        commands, "failed", "transactions that failed, and their events again", "resubmit",
        "Sends failed events again as new single records, at a time after the last punctuation, each once at most. The engine "
        "must read single records (--input records); other events are for their source to send again.",
    )  # fmt: skip
    _add_outcomes(
        commands, "dead-letter", "messages that could not become events, and again as input", "replay",
        "Sends dead letters again as new single records, at a time after the last punctuation, each once at most; what could not "
        "be read goes byte for byte. Conflicts are left out: another copy counted. The engine must read single records.",
    )  # fmt: skip


def _add_state(commands: Any) -> None:
    parser = add_command(
        commands, "state", summary="look at the state", description="Looks at an application's state.",
        example="millrace state get accounts 17 18 --http 127.0.0.1:8080",
    )  # fmt: skip
    targets = parser.add_subparsers(title="what to do", metavar="WHAT", required=True)
    get = add_command(
        targets, "get", summary="the values of some keys, all as of one epoch",
        description="Asks the running service at --http; without that, reads the last snapshot and the changelog (--app, "
        "--snapshots), which disturbs no running service. A key is an integer or a string, a tuple a JSON list.",
        example="millrace state get accounts 17 18 --http 127.0.0.1:8080 --json",
    )  # fmt: skip
    get.add_argument("table", metavar="TABLE", help="the table")
    get.add_argument("keys", metavar="KEY", nargs="+", help="the keys")
    add_json(get)
    settings.add_flags(get, "kafka", own="engine")
    get.set_defaults(command=_state_get)


def _add_outcomes(commands: Any, topic: str, what: str, again: str, description: str) -> None:
    parser = add_command(
        commands, topic, summary=what, description=f"Shows {what}.", example=f"millrace {topic} show --app ledger:app"
    )
    targets = parser.add_subparsers(title="what to do", metavar="WHAT", required=True)
    show = add_command(
        targets, "show", summary="list them with their reasons", description=f"Lists the last ones of: {what}.",
        example=f"millrace {topic} show --app ledger:app --limit 100 --json",
    )  # fmt: skip
    show.add_argument("--limit", type=int, default=20, metavar="N", help="the last so many (%(default)s)")
    show.set_defaults(command=lambda arguments: _show(arguments, topic))
    send = add_command(
        targets, again, summary="send them again as new events", description=description,
        example=f"millrace {topic} {again} --app ledger:app --input records --json",
    )  # fmt: skip
    send.add_argument("--ts", type=int, metavar="T", help="their event time (the first after the last punctuation)")
    send.set_defaults(command=lambda arguments: _send(arguments, topic))
    for each in (show, send):
        each.add_argument("--reason", metavar="WORD", help="only those with this reason")
        add_json(each)
        settings.add_flags(
            each, "kafka", own="engine", only=("app", "input", "schema_ids", "registry", "registry_user")
        )


def _state_get(arguments: argparse.Namespace) -> int:
    given = settings.read(arguments)
    found = _ask(given.engine, arguments) if given.engine.http is not None else _recover(given, arguments)
    if arguments.json:
        print(json.dumps(found))
        return 0
    print(f"as of epoch {found['epoch']}")
    for each in found["tables"][arguments.table]:
        print(f"{json.dumps(each['key'])}  {'(none)' if each['value'] is None else json.dumps(each['value'])}")
    return 0


def _ask(own: settings.EngineSettings, arguments: argparse.Namespace) -> Any:
    from services.errors import AnswerError

    query = urllib.parse.urlencode([("key", key) for key in arguments.keys])
    url = f"http://{own.http}/state/{urllib.parse.quote(arguments.table, safe='')}?{query}"
    headers = {"Authorization": f"Bearer {own.http_token.reveal()}"} if own.http_token is not None else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=ANSWER_TIMEOUT_S) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            raise AnswerError(f"the service at {own.http} refused ({error.code}): {error.read(500).decode()}") from None
    except OSError as error:
        raise AnswerError(f"no service answers at {own.http}: {error}; leave --http out to read the log") from None


def _recover(given: settings.Settings, arguments: argparse.Namespace) -> Any:
    """The state as a start of the service would find it."""
    from services.engine.command import make_runner
    from services.engine.recovery import Recovery
    from services.engine.serving.metrics import Metrics
    from services.engine.serving.pages import ServicePages
    from services.engine.serving.server import Request
    from services.errors import AnswerError

    runner = make_runner(given)
    state = Recovery(runner.application, runner.wire, runner.log, runner.snapshots).run(
        runner.make_engine, runner.rules.remembered_epochs
    )
    with state.engine as engine:
        pages = ServicePages(runner.application, runner.progress, Metrics(runner.progress), engine.read)
        query = urllib.parse.urlencode([("key", key) for key in arguments.keys])
        path = f"/state/{urllib.parse.quote(arguments.table, safe='')}?{query}"
        answer = pages.answer(Request("GET", path))
    if answer.status != 200:
        raise AnswerError(answer.body.decode().strip())
    return json.loads(answer.body)


# --- failed, dead-letter ------------------------------------------------------------------------------------------------


def _outcomes(given: settings.Settings) -> Outcomes:
    from services.engine.command import ids_of, load_application
    from services.engine.sending_again import Outcomes
    from services.engine.wire import Wire

    application = load_application(given.engine.app)
    return Outcomes(given.kafka, Wire(application, ids_of(given.engine, application)))


def _reasons(arguments: argparse.Namespace, known: Iterable[str]) -> tuple[str, ...]:
    from services.errors import SettingsError

    if arguments.reason is None:
        return tuple(known)
    if arguments.reason not in known:
        raise SettingsError(f"--reason {arguments.reason}: one of {', '.join(known)} was expected")
    return (arguments.reason,)


def _show(arguments: argparse.Namespace, topic: str) -> int:
    from collections import Counter, deque

    from services.engine.sending_again import FAILED_REASONS, LETTER_REASONS

    reasons = _reasons(arguments, FAILED_REASONS if topic == "failed" else LETTER_REASONS)
    outcomes = _outcomes(settings.read(arguments))
    last: deque[Outcome] = deque(maxlen=max(arguments.limit, 0))
    counted: Counter[str] = Counter()
    for outcome in outcomes.failed() if topic == "failed" else outcomes.letters():
        if outcome.reason in reasons:
            counted[outcome.reason] += 1
            last.append(outcome)
    if arguments.json:
        print(json.dumps({"total": counted.total(), "reasons": counted, "shown": [each.shown() for each in last]}))
        return 0
    for each in last:
        print(f"{each.reason:16}  {json.dumps(each.what)}")
    print(f"{counted.total()} in all" + "".join(f", {count} {reason}" for reason, count in counted.most_common()))
    return 0


def _send(arguments: argparse.Namespace, topic: str) -> int:
    from services.engine.sending_again import FAILED_REASONS, REPLAYED
    from services.errors import SettingsError

    given = settings.read(arguments)
    if given.engine.input != "records":
        raise SettingsError(
            "engine.input is not records: a source numbers its own events and counts them in its punctuations, so nobody else "
            "can add some; let it send them again (`show --json` has them), or give --input records if the engine reads those"
        )
    reasons = _reasons(arguments, FAILED_REASONS if topic == "failed" else REPLAYED)
    outcomes = _outcomes(given)
    ts = arguments.ts if arguments.ts is not None else outcomes.time_after_all()
    send = outcomes.resubmit if topic == "failed" else outcomes.replay
    sent = {reason: send(reason, ts) for reason in reasons}
    if arguments.json:
        print(json.dumps({"sent": sum(sent.values()), "reasons": sent, "ts": ts}))
    else:
        print(f"{sum(sent.values())} sent again at time {ts}" + "".join(f", {n} {r}" for r, n in sent.items() if n))
    return 0
