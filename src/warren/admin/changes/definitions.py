"""Definitions are brought over HTTP, as the body of a request or as a form's file.

Not here: taking them away (`resources.definitions`), what becomes of them (`admin.importing`).
"""

from warren.admin.http.answers import Answer, no_content
from warren.admin.http.call import Call
from warren.admin.http.faults import HttpFault, bad_request
from warren.admin.http.levels import administrator
from warren.admin.http.router import Resource
from warren.admin.importing.form_data import file_in_form
from warren.admin.importing.importer import DefinitionsFile, Importer
from warren.admin.importing.lines import NotDefinitions
from warren.admin.station import Station


def routes(station: Station) -> dict[str, Resource]:
    return {
        "/api/definitions": Resource(administrator, {"POST": take_whole}),
        "/api/all-configuration": Resource(administrator, {"POST": take_whole}),
        "/api/definitions/{vhost}": Resource(administrator, {"POST": take_into_vhost}),
    }


async def take_whole(call: Call) -> Answer:
    return await _take(call, "")


async def take_into_vhost(call: Call) -> Answer:
    vhost = call.params["vhost"]
    if vhost not in call.station.broker.vhosts:
        raise HttpFault(404, "not_found", "vhost_not_found")
    return await _take(call, vhost)


async def _take(call: Call, vhost: str) -> Answer:
    body, back_to = file_in_form(call.header("content-type"), await call.body())
    station = call.station
    try:
        await Importer(station.broker, station.desk).take([DefinitionsFile("", body)], vhost)
    except NotDefinitions as error:
        raise bad_request(f"failed_to_parse_json: {error}") from error
    return Answer(303, headers={"location": back_to}) if back_to else no_content()
