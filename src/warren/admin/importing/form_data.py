"""A file that a browser's form sends (`multipart/form-data`), and where the form wants to go afterwards.

Not here: any other body, which is the file itself.
"""

from email import message_from_bytes
from email.message import Message


def file_in_form(content_type: str, body: bytes) -> tuple[bytes, str]:
    """The file within a form, and its field `redirect`; a body that is no form is the file."""
    if not content_type.startswith("multipart/form-data"):
        return body, ""
    form = message_from_bytes(b"Content-Type: " + content_type.encode("latin-1", "replace") + b"\r\n\r\n" + body)
    parts = {_field(part): part for part in form.walk() if not part.is_multipart()}
    back_to = _content(parts["redirect"]).decode("ascii", "replace").strip() if "redirect" in parts else ""
    file = _content(parts["file"]) if "file" in parts else b""
    # only within this site: a relative place, never another host, and nothing that would end the header
    return file, back_to if back_to.startswith(("../", "./", "#")) and back_to.isprintable() else ""


def _field(part: Message) -> str:
    return str(part.get_param("name", "", "content-disposition"))


def _content(part: Message) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""
