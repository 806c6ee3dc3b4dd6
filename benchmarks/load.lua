-- What one thread of wrk asks: reads of every kind, and in one of twenty requests an upload. Each answer to an upload is noted.
-- Arguments: the folder of archives that are ready to be sent, and how many threads there are.

local reads = {
  "/api/v1/catalog?limit=20", "/api/v1/catalog?page=2&limit=20", "/api/v1/catalog/search?q=tidy+a+report",
  "/api/v1/catalog/facets", "/api/v1/skill-definitions?limit=20", "/.well-known/agent-skills/index.json",
}
local threads = 0

function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

local function contents(path)
  local file = io.open(path, "rb")
  local text = file and file:read("*a")
  if file then file:close() end
  return text
end

function init(arguments)
  folder, step, upload = arguments[1], tonumber(arguments[2]), number
  math.randomseed(7 + number)
  noted = io.open(folder .. "/acknowledged-" .. number, "w")
  noted:setvbuf("full")
  form = { ["Content-Type"] = "multipart/form-data; boundary=edge" }
end

function request()
  if math.random() < 0.05 then
    local body = contents(folder .. "/" .. upload)
    if body then
      upload = upload + step
      return wrk.format("POST", "/api/v1/skill-definitions/upload-create?force=true", form, body)
    end
  end
  if math.random() < 0.4 then
    return wrk.format("GET", "/api/v1/catalog/file?skill=installed:load-" .. math.random(0, 19))
  end
  return wrk.format("GET", reads[math.random(#reads)])
end

function response(status, headers, body)
  if status == 201 then
    noted:write(body:match('"skill_id":"([^"]+)"'), " ", body:match('"version":"([^"]+)"'), " ", body:match('"digest":"([^"]+)"'), "\n")
    noted:flush()
  elseif status ~= 200 then
    noted:write("refused ", status, " ", body:sub(1, 200):gsub("%s+", " "), "\n")
    noted:flush()
  end
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests": %d, "seconds": %.3f, "p50": %.3f, "p99": %.3f, "most": %.3f, "refused": %d, "broken": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3,
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
