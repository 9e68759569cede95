"""Definitions, tracing and log levels: every form is used, and its effect is checked with the API."""

import json
from collections.abc import Callable
from pathlib import Path

import pika
from playwright.sync_api import expect

from tests.browser.site import Site
from tests.browser.visitor import Visitor


def test_definitions_are_exported_changed_and_imported(
    visitor: Visitor, site: Site, vhost: str, tmp_path: Path
) -> None:
    site.make_queue(vhost, "kept")
    visitor.go("definitions")
    exporting = visitor.form("Export definitions")
    exporting.get_by_label("Of").select_option(label=f"The virtual host {vhost}")
    with visitor.page.expect_download() as download:
        exporting.get_by_role("button", name="Download").click()
    saved = tmp_path / download.value.suggested_filename
    download.value.save_as(saved)
    definitions = json.loads(saved.read_text())
    assert [queue["name"] for queue in definitions["queues"]] == ["kept"]

    definitions["queues"].append({**definitions["queues"][0], "name": "brought"})
    saved.write_text(json.dumps(definitions))
    importing = visitor.form("Import definitions")
    importing.get_by_label("File").set_input_files(saved)
    importing.get_by_label("Into").select_option(label=f"The virtual host {vhost}")
    importing.get_by_role("button", name="Import").click()
    visitor.confirm("Import")
    expect(importing.get_by_role("status")).to_have_text("Imported: 2 queues.")
    assert site.exists("queues", vhost, "brought")


def test_a_file_that_is_no_definitions_is_refused_with_a_reason(
    visitor: Visitor, site: Site, vhost: str, tmp_path: Path
) -> None:
    visitor.go("definitions")
    importing = visitor.form("Import definitions")
    importing.get_by_role("button", name="Import").click()
    expect(importing.get_by_role("alert")).to_have_text("No file was chosen.")
    bad = tmp_path / "bad.json"
    bad.write_text('{"queues": [')
    importing.get_by_label("File").set_input_files(bad)
    importing.get_by_role("button", name="Import").click()
    visitor.confirm("Import")
    expect(importing.get_by_role("alert")).to_contain_text("The file is not JSON")
    bad.write_text(json.dumps({"queues": [{"name": "half", "vhost": vhost}, {"name": 5, "vhost": vhost}]}))
    importing.get_by_label("File").set_input_files(bad)
    with visitor.refused(400):
        importing.get_by_role("button", name="Import").click()
        visitor.confirm("Import")
        expect(importing.get_by_role("alert")).not_to_be_empty()
    assert site.get("queues", vhost) == []


def test_a_trace_is_started_read_and_stopped(
    visitor: Visitor, site: Site, vhost: str, name: Callable[[str], str]
) -> None:
    trace = name("trail")
    site.make_queue(vhost, "traced")
    visitor.go("tracing")
    visitor.panel("Start a trace")
    form = visitor.form("Start a trace")
    form.get_by_label("Virtual host").select_option(vhost)
    form.get_by_label("Name", exact=True).fill(trace)
    form.get_by_label("Format").select_option("json")
    form.get_by_label("Pattern").fill("publish.#")
    form.get_by_role("button", name="Start trace").click()
    expect(form.get_by_role("status")).to_contain_text("is running")
    expect(visitor.row("Running traces", trace)).to_contain_text("publish.#")
    expect(visitor.row("Running traces", trace)).to_contain_text("running")
    assert [one["name"] for one in site.get("traces", vhost)] == [trace]

    host, port = site.amqp
    client = pika.BlockingConnection(pika.ConnectionParameters(host, port, vhost))
    client.channel().basic_publish("", "traced", b"footprint")
    client.close()
    visitor.set_pace(1)
    file = visitor.row("Trace files", f"{trace}.log")
    expect(file).not_to_contain_text(" 0 B")
    file.get_by_role("button", name="View").click()
    expect(visitor.page.get_by_role("region", name=f"{trace}.log")).to_contain_text('"publish')
    visitor.row("Running traces", trace).get_by_role("button", name="Stop").click()
    expect(visitor.row("Running traces", trace)).to_have_count(0)
    assert site.get("traces", vhost) == []
    file.get_by_role("button", name="Delete").click()
    visitor.confirm("Delete")
    expect(file).to_have_count(0)


def test_a_log_level_is_changed(visitor: Visitor, site: Site) -> None:
    visitor.go("logs")
    form = visitor.form("Log levels")
    level = form.get_by_label("connection", exact=True)
    level.select_option("debug")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("status")).to_have_text("Changed.")
    assert site.get("warren", "log-levels")["categories"]["connection"] == "debug"
    level.select_option("info")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("status")).to_have_text("Changed.")
    assert site.get("warren", "log-levels")["categories"]["connection"] == "info"
