"""Receives OTLP over HTTP in JSON, checks it field by field and keeps what it understood."""
import http.server
import json
import os
import sys

kept, mode = sys.argv[1:]
# Fields that each message of the protocol has, and which of them are 64 bits wide: strings in JSON.
POINT = {"attributes", "startTimeUnixNano", "timeUnixNano"}
FIELDS = {
    "request": {"resourceMetrics"},
    "resourceMetrics": {"resource", "scopeMetrics", "schemaUrl"},
    "resource": {"attributes", "droppedAttributesCount"},
    "scopeMetrics": {"scope", "metrics", "schemaUrl"},
    "scope": {"name", "version", "attributes"},
    "metric": {"name", "description", "unit", "gauge", "sum", "histogram"},
    "gauge": {"dataPoints"},
    "sum": {"dataPoints", "aggregationTemporality", "isMonotonic"},
    "histogram": {"dataPoints", "aggregationTemporality"},
    "number": POINT | {"asInt", "asDouble"},
    "spread": POINT | {"count", "sum", "bucketCounts", "explicitBounds"},
}


class Reading:
    def __init__(self):
        self.problems, self.values, self.resource, self.names = [], {}, {}, set()

    def check(self, holds, problem):
        if not holds:
            self.problems.append(problem)

    def fields(self, message, kind):
        unknown = set(message) - FIELDS[kind]
        self.check(not unknown, f"{kind} has no {unknown}")

    def attributes(self, message):
        found = {}
        for pair in message.get("attributes", []):
            self.check(set(pair) == {"key", "value"} and set(pair["value"]) == {"stringValue"}, f"attribute {pair}")
            self.check(pair["key"] not in found, f"{pair['key']} is there twice")
            found[pair["key"]] = pair["value"]["stringValue"]
        return found

    def wide(self, value):
        self.check(isinstance(value, str) and value.isdigit(), f"{value!r} is not 64 bits as a string")
        return int(value)

    def point(self, point, kind):
        self.fields(point, kind)
        start, now = self.wide(point["startTimeUnixNano"]), self.wide(point["timeUnixNano"])
        self.check(1_500_000_000 * 10**9 < start <= now, f"from {start} to {now}")
        if kind == "number":
            self.check(("asInt" in point) != ("asDouble" in point), "one value and not two")
            return self.wide(point["asInt"]) if "asInt" in point else float(point["asDouble"])
        counts, bounds = [self.wide(count) for count in point["bucketCounts"]], point["explicitBounds"]
        self.check(len(counts) == len(bounds) + 1, "one count more than bounds")
        self.check(bounds == sorted(set(bounds)), "bounds ascend")
        self.check(sum(counts) == self.wide(point["count"]), "counts add up")
        return {"count": int(point["count"]), "sum": point["sum"]}

    def metric(self, metric):
        self.fields(metric, "metric")
        name = metric["name"]
        self.check(name not in self.names, f"{name} is there twice")
        self.names.add(name)
        data = [key for key in ("gauge", "sum", "histogram") if key in metric]
        self.check(len(data) == 1, f"{name} is {data}")
        body = metric[data[0]]
        self.fields(body, data[0])
        if data[0] != "gauge":
            self.check(body["aggregationTemporality"] == 2, f"{name} is not cumulative")
        if data[0] == "sum":
            self.check(body["isMonotonic"] is True, f"{name} may fall")
        self.check(body["dataPoints"], f"{name} has no points")
        for point in body["dataPoints"]:
            labels = ",".join(f"{key}={value}" for key, value in self.attributes(point).items())
            key = f"{name}{{{labels}}}"
            self.check(key not in self.values, f"{key} is there twice")
            self.values[key] = self.point(point, "spread" if data[0] == "histogram" else "number")

    def request(self, request):
        self.fields(request, "request")
        for of_resource in request["resourceMetrics"]:
            self.fields(of_resource, "resourceMetrics")
            self.fields(of_resource["resource"], "resource")
            self.resource = self.attributes(of_resource["resource"])
            for of_scope in of_resource["scopeMetrics"]:
                self.fields(of_scope, "scopeMetrics")
                self.fields(of_scope["scope"], "scope")
                for metric in of_scope["metrics"]:
                    self.metric(metric)


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *rest):
        pass

    def do_POST(self):
        reading = Reading()
        body = self.rfile.read(int(self.headers["Content-Length"]))
        reading.check(self.path == "/v1/metrics", f"path {self.path}")
        reading.check(self.headers["Content-Type"] == "application/json", "content type")
        try:
            reading.request(json.loads(body))
        except Exception as error:
            reading.problems.append(repr(error))
        with open(kept + ".new", "w") as file:
            json.dump({"problems": reading.problems, "values": reading.values, "resource": reading.resource}, file)
        os.rename(kept + ".new", kept)
        partial = {"partialSuccess": {"rejectedDataPoints": "2", "errorMessage": "two points too many"}}
        answer = json.dumps(partial if mode == "partial" else {}).encode()
        self.send_response(503 if mode == "refuse" else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
