"""The name a certificate gives a client. The expected names are those RabbitMQ 3.10.8 gives the same certificates."""

from typing import Any

import pytest

from warren.node.tls import CertificateUserName, distinguished_name

Part = tuple[tuple[str, str], ...]


def subject(*attributes: tuple[str, str]) -> dict[str, Any]:
    return {"subject": tuple((attribute,) for attribute in attributes)}


@pytest.mark.parametrize(
    ("certificate", "name"),
    [
        (subject(("organizationName", "Example"), ("commonName", "alice")), "CN=alice,O=Example"),
        (
            subject(
                ("countryName", "SE"),
                ("stateOrProvinceName", "Skane"),
                ("localityName", "Lund"),
                ("organizationName", "Example, Inc."),
                ("organizationalUnitName", "R+D"),
                ("commonName", "alice"),
            ),
            "CN=alice,OU=R\\+D,O=Example\\, Inc.,L=Lund,ST=Skane,C=SE",
        ),
        (
            subject(
                ("domainComponent", "com"),
                ("domainComponent", "ex"),
                ("emailAddress", "a@b.c"),
                ("commonName", ' Åsa #"x" '),
                ("serialNumber", "12"),
                ("surname", "Sur"),
                ("givenName", "Giv"),
                ("title", "T"),
                ("userId", "uid7"),
                ("streetAddress", "street"),
            ),
            "2.5.4.9=street,UID=uid7,TITLE=T,GIVENNAME=Giv,SN=Sur,SERIALNUMBER=12,"
            'CN=\\ \\C3\\85sa #\\"x\\"\\ ,EMAILADDRESS=a@b.c,DC=ex,DC=com',
        ),
        (
            subject(
                ("initials", "I"),
                ("generationQualifier", "gen"),
                ("dnQualifier", "q"),
                ("pseudonym", "ps"),
                ("postalCode", "222"),
                ("commonName", "#a<b>;c\\d=e\t~"),
            ),
            "CN=\\#a\\<b\\>\\;c\\\\d=e\\09\\7E,2.5.4.17=222,PSEUDONYM=ps,2.5.4.46=q,GENERATIONQUALIFIER=gen,INITIALS=I",
        ),
        (
            {"subject": ((("commonName", "a"), ("organizationalUnitName", "b")), (("commonName", "second"),))},
            "CN=second,CN=a+OU=b",
        ),
        ({"subject": ()}, ""),
    ],
)
def test_a_distinguished_name_is_written_as_rabbitmq_writes_it(certificate: dict[str, Any], name: str) -> None:
    assert distinguished_name(certificate) == name


def test_several_common_names_are_joined() -> None:
    naming = CertificateUserName("common_name")
    assert naming.name_of(subject(("commonName", "a"), ("organizationName", "o"), ("commonName", "b"))) == "a,b"


def test_an_alternative_name_is_chosen_by_type_and_index() -> None:
    certificate = {
        "subjectAltName": (
            ("DNS", "one.example"),
            ("DNS", "two.example"),
            ("email", "a@b.c"),
            ("URI", "urn:x"),
            ("IP Address", "10.0.0.1"),
        )
    }

    def named(kind: str, index: int = 0) -> str:
        return CertificateUserName("subject_alternative_name", kind, index).name_of(certificate)

    assert [named("dns"), named("dns", 1), named("dns", 2)] == ["one.example", "two.example", ""]
    assert [named("email"), named("uri"), named("ip")] == ["a@b.c", "urn:x", "10.0.0.1"]


@pytest.mark.parametrize("login_from", ["distinguished_name", "common_name", "subject_alternative_name"])
def test_a_client_without_a_certificate_has_no_name(login_from: str) -> None:
    naming = CertificateUserName(login_from)
    assert (naming.name_of(None), naming.name_of({})) == ("", "")
