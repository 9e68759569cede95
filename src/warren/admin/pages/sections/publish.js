// Publish one message.

import { path, post } from "../app/api.js";
import { areaField, choiceField, textField } from "../parts/fields.js";
import { form } from "../parts/form.js";
import { mapField } from "../parts/map_field.js";
import { MESSAGE_PROPERTIES } from "./known_arguments.js";

/** To an exchange, or with `queue` to that queue through the default exchange. */
export function publishForm(vhost, exchange, queue = null) {
  const key = queue === null ? [textField("routing_key", "Routing key")] : [];
  return form({
    label: "Publish a message",
    fields: [
      [
        ...key,
        choiceField("mode", "Delivery mode", [
          ["1", "Transient"],
          ["2", "Persistent"],
        ]),
      ],
      mapField("headers", "Headers"),
      mapField("properties", "Properties", MESSAGE_PROPERTIES),
      areaField("payload", "Payload"),
      choiceField("encoding", "The payload is", [
        ["string", "Text"],
        ["base64", "Base64"],
      ]),
    ],
    submit: "Publish",
    keep: true,
    send: async (values) => {
      const answer = await post(path("exchanges", vhost, exchange, "publish"), {
        routing_key: queue ?? values.routing_key,
        payload: values.payload,
        payload_encoding: values.encoding,
        properties: { ...values.properties, delivery_mode: Number(values.mode), headers: values.headers },
      });
      return answer.routed ? "Published." : "Published, but no queue takes it: the message is gone.";
    },
  });
}
