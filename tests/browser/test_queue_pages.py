"""The list of queues and the page of one: every form is used, and its effect is checked with the API."""

from playwright.sync_api import expect

from tests.browser.site import Site
from tests.browser.visitor import Visitor


def open_queue(visitor: Visitor, vhost: str, queue: str) -> None:
    visitor.go("queues", vhost, queue)
    expect(visitor.heading).to_have_text(queue)


def test_a_queue_is_added_with_arguments_and_appears_in_the_list(visitor: Visitor, site: Site, vhost: str) -> None:
    visitor.go("queues")
    visitor.choose_vhost(vhost)
    expect(visitor.page.get_by_text("No queues to show.")).to_be_visible()
    visitor.panel("Add a queue")
    form = visitor.form("Add a queue")
    expect(form.get_by_label("Virtual host")).to_have_value(vhost)
    form.get_by_label("Name", exact=True).first.fill("orders")
    form.get_by_role("button", name="+ Message TTL").click()
    form.get_by_label("Value").last.fill("60000")
    form.get_by_role("button", name="+ Overflow").click()
    form.get_by_label("Value").last.select_option("reject-publish")
    form.get_by_role("button", name="+ Single active consumer").click()
    form.get_by_role("button", name="Add queue").click()
    expect(form.get_by_role("status")).to_have_text("The queue “orders” was added.")
    queue = site.get("queues", vhost, "orders")
    assert queue["durable"] is True
    assert queue["arguments"] == {
        "x-message-ttl": 60000,
        "x-overflow": "reject-publish",
        "x-single-active-consumer": True,
    }
    expect(visitor.row("Queues", "orders")).to_contain_text("TTL")


def test_a_copy_is_added_and_shown_at_its_source(visitor: Visitor, site: Site, vhost: str) -> None:
    site.make_queue(vhost, "source")
    visitor.go("queues")
    visitor.choose_vhost(vhost)
    visitor.panel("Add a queue")
    form = visitor.form("Add a queue")
    form.get_by_label("Name", exact=True).first.fill("copy")
    form.get_by_role("button", name="+ Copy from").click()
    form.get_by_label("Value").last.fill("source")
    form.get_by_role("button", name="Add queue").click()
    expect(form.get_by_role("status")).to_have_text("The queue “copy” was added.")
    expect(visitor.row("Queues", "copy")).to_contain_text("Copy")
    open_queue(visitor, vhost, "source")
    expect(visitor.page.locator("dt", has_text="Copied by").locator("+ dd")).to_have_text("copy")


def test_a_refused_queue_is_explained_beside_its_form(visitor: Visitor, site: Site, vhost: str) -> None:
    site.make_queue(vhost, "taken")
    visitor.go("queues")
    visitor.panel("Add a queue")
    form = visitor.form("Add a queue")
    form.get_by_role("button", name="Add queue").click()
    expect(form.get_by_role("alert")).to_have_text("Name is missing.")
    expect(form.get_by_label("Name", exact=True).first).to_be_focused()
    form.get_by_label("Virtual host").select_option(vhost)
    form.get_by_label("Name", exact=True).first.fill("taken")
    form.get_by_label("Durability").select_option("false")
    with visitor.refused(400):
        form.get_by_role("button", name="Add queue").click()
        expect(form.get_by_role("alert")).to_contain_text("Inequivalent arg 'durable' for queue 'taken'")
    form.get_by_role("button", name="+ Max length", exact=True).click()
    form.get_by_label("Value").last.fill("many")
    form.get_by_role("button", name="Add queue").click()
    expect(form.get_by_role("alert")).to_have_text("“many” is not a number.")


def test_messages_are_published_looked_at_and_taken(visitor: Visitor, site: Site, vhost: str) -> None:
    site.make_queue(vhost, "letters")
    open_queue(visitor, vhost, "letters")
    visitor.panel("Publish a message")
    form = visitor.form("Publish a message")
    form.get_by_label("Delivery mode").select_option("2")
    form.get_by_role("group", name="Headers").get_by_role("button", name="+ Another").click()
    form.get_by_label("Name").last.fill("colour")
    form.get_by_label("Value").last.fill("<b>red</b>")
    form.get_by_role("button", name="+ content_type").click()
    form.get_by_label("Value").last.fill("text/plain")
    form.get_by_label("Payload", exact=True).fill("Grüße, 🐇 & <i>more</i>")
    form.get_by_role("button", name="Publish").click()
    expect(form.get_by_role("status")).to_have_text("Published.")
    assert site.payloads(vhost, "letters") == ["Grüße, 🐇 & <i>more</i>"]

    part = visitor.panel("Get messages")
    getting = visitor.form("Get messages")
    getting.get_by_role("button", name="Get messages").click()
    expect(getting.get_by_role("status")).to_have_text("1 message.")
    expect(part.get_by_role("region", name="Payload")).to_have_text("Grüße, 🐇 & <i>more</i>")
    expect(part).to_contain_text("colour: <b>red</b>")
    assert len(site.payloads(vhost, "letters")) == 1

    getting.get_by_label("Ack mode").select_option("ack_requeue_false")
    getting.get_by_role("button", name="Get messages").click()
    visitor.confirm("Take them")
    expect(getting.get_by_role("status")).to_have_text("1 message.")
    assert site.payloads(vhost, "letters") == []
    getting.get_by_role("button", name="Get messages").click()
    visitor.confirm("Take them")
    expect(getting.get_by_role("status")).to_have_text("The queue is empty.")


def test_a_queue_is_bound_and_unbound(visitor: Visitor, site: Site, vhost: str) -> None:
    site.make_queue(vhost, "bound")
    open_queue(visitor, vhost, "bound")
    visitor.panel("Bind this queue")
    form = visitor.form("Add a binding to this")
    form.get_by_label("From the exchange").fill("amq.topic")
    form.get_by_label("Routing key").fill("a.%/#")
    form.get_by_role("button", name="Bind").click()
    expect(form.get_by_role("status")).to_have_text("Bound.")
    row = visitor.row("Bindings to this queue", "amq.topic")
    expect(row).to_contain_text("a.%/#")
    row.get_by_role("button", name="Unbind").click()
    visitor.confirm("Unbind")
    expect(row).to_have_count(0)
    assert [binding["source"] for binding in site.get("queues", vhost, "bound", "bindings")] == [""]


def test_messages_are_moved_to_another_queue(visitor: Visitor, site: Site, vhost: str) -> None:
    site.make_queue(vhost, "from")
    site.make_queue(vhost, "to")
    site.publish(vhost, "from", "parcel", count=5)
    open_queue(visitor, vhost, "from")
    visitor.panel("Move messages")
    form = visitor.form("Move messages")
    form.get_by_label("To the queue").fill("to")
    form.get_by_label("How many").fill("2")
    form.get_by_role("button", name="Move messages").click()
    visitor.confirm("Move them")
    expect(form.get_by_role("status")).to_have_text("2 messages moved.")
    assert (len(site.payloads(vhost, "from")), len(site.payloads(vhost, "to"))) == (3, 2)
    form.get_by_label("To the queue").fill("to")
    form.get_by_role("button", name="Move messages").click()
    visitor.confirm("Move them")
    expect(form.get_by_role("status")).to_have_text("3 messages moved.")
    assert (len(site.payloads(vhost, "from")), len(site.payloads(vhost, "to"))) == (0, 5)
    form.get_by_label("To the queue").fill("nowhere")
    with visitor.refused(400):
        form.get_by_role("button", name="Move messages").click()
        visitor.confirm("Move them")
        expect(form.get_by_role("alert")).to_have_text(f"No queue 'nowhere' in vhost '{vhost}'.")


def test_a_purge_asks_first_and_then_empties_the_queue(visitor: Visitor, site: Site, vhost: str) -> None:
    site.make_queue(vhost, "full")
    site.publish(vhost, "full", "leaf", count=3)
    open_queue(visitor, vhost, "full")
    visitor.panel("Purge or delete")
    visitor.page.get_by_role("button", name="Purge the queue").click()
    visitor.confirm("Cancel")
    assert len(site.payloads(vhost, "full")) == 3
    visitor.page.get_by_role("button", name="Purge the queue").click()
    visitor.confirm("Purge it")
    expect(visitor.form("Purge the queue").get_by_role("status")).to_have_text("Purged.")
    assert site.payloads(vhost, "full") == []


def test_a_queue_is_deleted_unless_it_may_not_be(visitor: Visitor, site: Site, vhost: str) -> None:
    site.make_queue(vhost, "doomed")
    site.publish(vhost, "doomed", "last words")
    open_queue(visitor, vhost, "doomed")
    visitor.panel("Purge or delete")
    form = visitor.form("Delete this queue")
    form.get_by_label("Only if it is empty").check()
    with visitor.refused(400):
        form.get_by_role("button", name="Delete the queue").click()
        visitor.confirm("Delete")
        expect(form.get_by_role("alert")).to_contain_text("not empty")
    form.get_by_label("Only if it is empty").uncheck()
    form.get_by_role("button", name="Delete the queue").click()
    visitor.confirm("Delete")
    expect(visitor.heading).to_have_text("Queues")
    assert not site.exists("queues", vhost, "doomed")


def test_the_page_of_a_queue_shows_what_rules_it(visitor: Visitor, site: Site, vhost: str) -> None:
    site.make_queue(vhost, "ruled", **{"x-max-length": 10})
    policy = {"pattern": "^ruled$", "definition": {"message-ttl": 60000, "max-length": 50}, "apply-to": "queues"}
    site.ask("PUT", "policies", vhost, "gentle", body=policy)
    site.ask("PUT", "operator-policies", vhost, "firm", body={**policy, "definition": {"max-length": 5}})
    open_queue(visitor, vhost, "ruled")
    rules = visitor.panel("Rules")
    expect(rules).to_contain_text("gentle")
    expect(rules).to_contain_text("firm")
    expect(rules).to_contain_text("max-length: 5")
    expect(rules).to_contain_text("message-ttl: 60000")


def test_a_missing_queue_is_shown_as_missing(visitor: Visitor, vhost: str) -> None:
    with visitor.refused(404):
        visitor.go("queues", vhost, "nowhere")
        expect(visitor.page.get_by_role("alert").filter(has_text="Not found.")).to_be_visible()
        # this page asks again and again
        visitor.go("queues")
        expect(visitor.heading).to_have_text("Queues")
