import java.io.ByteArrayOutputStream;
import java.io.StringReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import javax.xml.transform.Templates;
import javax.xml.transform.TransformerException;
import javax.xml.transform.stream.StreamResult;
import javax.xml.transform.stream.StreamSource;
import org.apache.xalan.processor.TransformerFactoryImpl;

/** Xalan's interpreter: threads turn documents of XML into pages with one style sheet. */
final class Xalan implements Workload {
    /** Groups, sorts, counts and calls itself. */
    private static final String SHEET =
            """
            <xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
              <xsl:output method="html" indent="yes"/>
              <xsl:key name="by-kind" match="item" use="@kind"/>
              <xsl:template match="/catalogue">
                <html><body>
                  <h1><xsl:value-of select="@name"/>: <xsl:value-of select="count(item)"/></h1>
                  <xsl:for-each select="item[generate-id() = generate-id(key('by-kind', @kind)[1])]">
                    <xsl:sort select="@kind"/>
                    <h2><xsl:value-of select="@kind"/></h2>
                    <p>sum <xsl:value-of select="sum(key('by-kind', @kind)/price)"/></p>
                    <xsl:apply-templates select="key('by-kind', @kind)">
                      <xsl:sort select="price" data-type="number" order="descending"/>
                      <xsl:sort select="@id" data-type="number"/>
                    </xsl:apply-templates>
                  </xsl:for-each>
                </body></html>
              </xsl:template>
              <xsl:template match="item">
                <div id="{@id}">
                  <b><xsl:value-of select="translate(title, 'abcdefghij', 'ABCDEFGHIJ')"/></b>
                  <xsl:if test="price &gt; 500"><i><xsl:value-of select="price"/></i></xsl:if>
                  <xsl:apply-templates select="text"/>
                </div>
              </xsl:template>
              <xsl:template match="text">
                <xsl:call-template name="cut"><xsl:with-param name="rest" select="."/></xsl:call-template>
              </xsl:template>
              <xsl:template name="cut">
                <xsl:param name="rest"/>
                <xsl:choose>
                  <xsl:when test="contains($rest, '. ')">
                    <p><xsl:value-of select="normalize-space(substring-before($rest, '. '))"/></p>
                    <xsl:call-template name="cut">
                      <xsl:with-param name="rest" select="substring-after($rest, '. ')"/>
                    </xsl:call-template>
                  </xsl:when>
                  <xsl:otherwise><p><xsl:value-of select="$rest"/></p></xsl:otherwise>
                </xsl:choose>
              </xsl:template>
            </xsl:stylesheet>
            """;

    private final Templates sheet;
    private final List<String> documents = new ArrayList<>();
    /** How often each document is transformed. */
    private final int rounds;

    Xalan(Scale scale) throws TransformerException {
        sheet = new TransformerFactoryImpl().newTemplates(new StreamSource(new StringReader(SHEET)));
        rounds = scale.of(4, 1);
        for (int number = 0; number < scale.of(16, 4); number++) {
            documents.add(document(number));
        }
    }

    private static String document(int number) {
        Prose prose = new Prose(9200 + number);
        StringBuilder text = new StringBuilder("<catalogue name=\"" + prose.word() + "\">");
        for (int id = 0; id < 120; id++) {
            text.append("<item id=\"" + id + "\" kind=\"" + Prose.word(prose.below(8)) + "\">");
            text.append("<title>" + prose.words(3) + "</title>");
            text.append("<price>" + prose.below(1000) + "</price>");
            text.append("<text>" + prose.words(30 + prose.below(60)) + "</text></item>");
        }
        return text.append("</catalogue>").toString();
    }

    @Override
    public long run(Mutators mutators, Map<String, Object> facts) {
        return mutators.sum(
                thread -> {
                    long sum = 0;
                    int all = rounds * documents.size();
                    for (int i = thread; i < all; i += mutators.threads()) {
                        byte[] page = transformed(documents.get(i % documents.size()));
                        sum += Numbers.scattered(i + Numbers.hashOf(page));
                    }
                    return sum;
                });
    }

    private byte[] transformed(String document) {
        ByteArrayOutputStream page = new ByteArrayOutputStream();
        try {
            StreamSource source = new StreamSource(new StringReader(document));
            sheet.newTransformer().transform(source, new StreamResult(page));
        } catch (TransformerException error) {
            throw Real.broken(error);
        }
        return page.toByteArray();
    }
}
