# maps ROUNDS SIZE: strings, string builders, hashes, sets, arrays and sorting.

require "json"
require "set"

class Sequence
  def initialize(@state : UInt64)
  end

  def below(limit : Int32) : Int32
    @state = @state &* 6364136223846793005_u64 &+ 1442695040888963407_u64
    ((@state >> 33) % limit).to_i
  end
end

SYLLABLES = %w(ga ro len ti mu sar ke vo din pa ste lu ör né)

def word(random)
  String.build do |io|
    (1 + random.below(4)).times { io << SYLLABLES[random.below(SYLLABLES.size)] }
  end
end

def digest(text : String) : UInt32
  text.each_byte.reduce(7_u32) { |sum, byte| sum &* 31 &+ byte }
end

rounds, size = ARGV[0].to_i, ARGV[1].to_i
random = Sequence.new(2000_u64)
index = Hash(String, Array(Int32)).new { |hash, key| hash[key] = [] of Int32 }

rounds.times do |round|
  text = Array.new(size) { word(random) }.join(' ')
  text.split(' ').each_with_index { |w, i| index[w] << i + round }
  ranked = index.to_a.sort_by! { |(w, places)| {-places.size, w} }
  document = ranked.first(size // 4).map { |(w, places)|
    {word: w, count: places.size, last: places.last(3)}
  }.to_json
  parsed = JSON.parse(document)
  count = parsed.as_a.sum(&.["count"].as_i)
  distinct = Set(String).new(parsed.as_a.map(&.["word"].as_s.upcase)).size
  puts "round #{round}: #{index.size} words, #{count} places, " \
       "#{distinct} names, text #{digest(text)}, document #{digest(document)}"
end
